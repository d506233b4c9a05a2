"""Every way of doing a task from Python that is measured; a row of `harness.rows` names each."""
