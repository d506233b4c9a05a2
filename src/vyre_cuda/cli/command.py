"""`main`: the arguments of the command line, the command that they name, and the exit code."""

from __future__ import annotations

import argparse
import os
import re
import sys
from collections.abc import Sequence
from pathlib import Path

import vyre_cuda as vc
from vyre_cuda.cli import bench, bundle, cache, demo, doctor, explain, info, interrupts, programs, run
from vyre_cuda.cli.console import Console
from vyre_cuda.cli.failures import UsageError, text_of
from vyre_cuda.cli.values import FORMS
from vyre_cuda.errors import Error

_GOOD, _FAILED, _USAGE, _INTERRUPTED = 0, 1, 2, 130
_DEVICE_COMMANDS = ("info", "run", "explain", "demo", "doctor", "bench")
_NEGATIVE = re.compile(r"-(\d|\.\d|inf|nan)")

_RUN_HELP = """\
ARGS are the parameters in declared order without the outs, or NAME=VALUE.
A scalar is a number. A buffer is one of
  PATH.npy       an array saved by NumPy
  1,2,3          its elements
""" + "\n".join(f"  {form:<13}  {meaning}" for form, meaning in FORMS.items())

_BUNDLE_HELP = "Without -o, FILE is a bundle (.vyre) and its contents are printed. --launcher and --cpp work with both."


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code: 0 success, 1 the program or the device failed, 2 wrong usage."""
    # None where whoever started the process has closed it.
    sys.stdout = sys.stdout or os.fdopen(os.open(os.devnull, os.O_WRONLY), "w")
    sys.stderr = sys.stderr or os.fdopen(os.open(os.devnull, os.O_WRONLY), "w")
    options = _options(sys.argv[1:] if argv is None else argv)
    console = Console(json=options.json)
    try:
        with interrupts.repeated():
            code = _dispatch(console, options)
        sys.stdout.flush()
        return code
    except UsageError as error:
        console.error(str(error))
        return _USAGE
    except BrokenPipeError:
        # The reader has closed the pipe; nothing more may be written, not even at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return _GOOD
    except (Error, OSError, MemoryError) as error:
        console.error(text_of(error))
        return _FAILED
    except KeyboardInterrupt:
        console.error("interrupted")
        return _INTERRUPTED


def _dispatch(console: Console, options: argparse.Namespace) -> int:
    match options.command:
        case "info":
            if options.directory is not None:
                return info.directory(console, options.directory)
            return info.info(console, device=options.device)
        case "cache":
            return cache.cache(console, action=options.action)
        case "check":
            return programs.check(console, file=options.file, program=options.program)
        case "ptx":
            return programs.ptx(
                console,
                file=options.file,
                program=options.program,
                target=options.target,
                max_ulp=options.max_ulp,
                known=options.specialize,
            )
        case "doctor":
            return doctor.doctor(console, device=options.device, measures=not options.no_figures)
        case "bench":
            return bench.bench(console, device=options.device, full=options.full)
        case "explain":
            return explain.explain(
                console,
                file=options.file,
                program=options.program,
                device=options.device,
                grid=options.grid,
                auto=options.auto_block,
                known=options.specialize,
                rewrites=options.rewrites,
            )
        case "run":
            return run.run(
                console,
                file=options.file,
                program=options.program,
                arguments=[text.strip() for text in options.arguments],
                device=options.device,
                seed=options.seed,
                grid=options.grid,
                save=options.out,
                repeats=options.repeats if options.time else None,
            )
        case "bundle":
            return bundle.bundle(
                console,
                file=options.file,
                program=options.program,
                out=options.out,
                targets=options.targets,
                precision=options.precision,
                bounds=options.bounds,
                max_ulp=options.max_ulp,
                known=options.specialize,
                source=options.source,
                cubins=options.cubins,
                launcher=options.launcher,
                cpp=options.cpp,
            )
        case _:
            return demo.demo(console, device=options.device, seed=options.seed)


def _options(argv: Sequence[str]) -> argparse.Namespace:
    parser = _parser()
    # A negative number is not an option; argparse takes anything that begins with a space as a value.
    protected = [f" {text}" if _NEGATIVE.match(text) else text for text in argv]
    options, rest = parser.parse_known_args(protected)
    unknown = [text for text in rest if text.startswith("-")]
    if unknown or (rest and options.command != "run"):
        parser.error(f"unrecognized arguments: {' '.join(unknown or rest)}")
    if options.command == "run":
        options.arguments = [*options.arguments, *rest]  # those that follow an option
    elif options.command not in _DEVICE_COMMANDS and "device" in options:
        parser.error(f"{options.command} does not use a device")
    options.device = getattr(options, "device", "auto")
    options.json = getattr(options, "json", False)
    return options


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="vyre-cuda", description="Small typed programs on NVIDIA GPUs.")
    parser.add_argument("--version", action="version", version=f"vyre-cuda {vc.__version__}")
    _add_device(parser)
    _add_json(parser)
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")

    add = commands.add_parser("info", help="show versions, devices and their capabilities")
    only = add.add_mutually_exclusive_group()
    for name in info.DIRECTORIES:
        meaning = "print only this directory, for building a C or C++ host"
        only.add_argument(f"--{name}-dir", dest="directory", action="store_const", const=name, help=meaning)
    _add_device(add)
    _add_json(add)

    add = commands.add_parser("check", help="report everything that is wrong with a program")
    _add_file(add)
    _add_json(add)

    add = commands.add_parser("ptx", help="print the PTX of a program")
    _add_file(add)
    add.add_argument("--target", default="sm_90", metavar="sm_NN", help="GPU generation (default: sm_90)")
    _add_max_ulp(add)
    _add_specialize(add)
    _add_json(add)

    add = commands.add_parser(
        "run", help="call a program", epilog=_RUN_HELP, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    _add_file(add)
    add.add_argument("arguments", nargs="*", metavar="ARGS", help="see below")
    add.add_argument("--out", action="append", default=[], type=_saved, metavar="NAME=PATH.npy", help="save a result")
    add.add_argument("--grid", type=_grid, metavar="X[,Y[,Z]]", help="blocks per axis, instead of the program's work")
    add.add_argument("--time", action="store_true", help="print timings")
    add.add_argument("--repeats", type=_positive, default=20, metavar="N", help="calls for --time (default: 20)")
    _add_seed(add)
    _add_device(add)
    _add_json(add)

    add = commands.add_parser("explain", help="show what a program needs of a device, and every limit on its launches")
    _add_file(add)
    add.add_argument(
        "--grid", type=_grid, metavar="X[,Y[,Z]]", help="also show the limits of a launch of this many blocks"
    )
    add.add_argument("--auto-block", action="store_true", help="use the block size that the device would choose")
    add.add_argument("--rewrites", action="store_true", help="also show how its expressions are rewritten, and why")
    _add_specialize(add)
    _add_device(add)
    _add_json(add)

    add = commands.add_parser(
        "bundle", help="compile programs into one file for C, C++ and Python hosts", epilog=_BUNDLE_HELP
    )
    _add_file(add)
    add.add_argument("-o", "--out", type=Path, metavar="OUT.vyre", help="the bundle to write")
    add.add_argument(
        "--targets", type=_targets, metavar="sm_NN[,sm_NN]", help="GPU generations (default: those of vc.bundle)"
    )
    add.add_argument("--precision", choices=("ieee", "ftz", "fast"), default="ieee", help="of floats (default: ieee)")
    add.add_argument("--bounds", choices=("check", "off", "trap"), default="check", help="of indices (default: check)")
    _add_max_ulp(add)
    _add_specialize(add)
    add.add_argument("--no-source", dest="source", action="store_false", help="leave out the bodies of the programs")
    add.add_argument(
        "--cubins",
        action=argparse.BooleanOptionalAction,
        help="store machine code as well as PTX (default: if ptxas or nvJitLink is there)",
    )
    meaning = "write a C++ program with the bundle embedded, and its CMakeLists.txt, to this folder"
    add.add_argument("--launcher", type=Path, metavar="DIR", help=meaning)
    meaning = "write a C++ header with a class for each kernel and graph"
    add.add_argument("--cpp", type=Path, metavar="NAME.hpp", help=meaning)
    _add_json(add)

    add = commands.add_parser("cache", help="inspect, check or empty the cache of compiled kernels on disk")
    actions = "; ".join(f"{name}: {meaning}" for name, meaning in cache.ACTIONS.items())
    add.add_argument("action", choices=cache.ACTIONS, help=actions)
    _add_json(add)

    add = commands.add_parser("demo", help="build, lower, dispatch, check and time a program")
    _add_seed(add)
    _add_device(add)
    _add_json(add)

    add = commands.add_parser("doctor", help="check the driver, devices, caches and permissions for problems")
    add.add_argument("--no-figures", action="store_true", help="skip the measurements")
    _add_device(add)
    _add_json(add)

    add = commands.add_parser(
        "bench", help="time calls, launches and copies, and the bare driver calls to compare with"
    )
    add.add_argument("--full", action="store_true", help="measure more calls and larger copies")
    _add_device(add)
    _add_json(add)
    return parser


# An option before the command must survive the defaults of the command's own parser.


def _add_device(parser: argparse.ArgumentParser) -> None:
    meaning = "auto (default), cuda, cuda:N, N, emulator or emulator:N"
    parser.add_argument("--device", default=argparse.SUPPRESS, type=_device, help=meaning)


def _add_json(parser: argparse.ArgumentParser) -> None:
    meaning = "print the result as JSON"
    parser.add_argument("--json", action="store_true", default=argparse.SUPPRESS, help=meaning)


def _add_file(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("file", type=Path, metavar="FILE", help="a program text (.vir), or a Python file with programs")
    parser.add_argument("--program", metavar="NAME", help="which program, when a Python file has several")


def _add_max_ulp(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--max-ulp",
        type=float,
        metavar="N",
        help="let each op be off by N units in the last place where that is cheaper",
    )


def _add_specialize(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--specialize",
        action="append",
        default=[],
        type=_known,
        metavar="NAME=VALUE",
        help="compile for this value of a scalar (w=28), a size (x.size=784) or an extent (img.shape[0]=64)",
    )


def _add_seed(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--seed", type=_seed, default=0, help="seed of the random numbers (default: 0)")


def _device(text: str) -> str:
    kind, _, number = text.partition(":")
    is_one_of_several = kind in ("cuda", "emulator") and number.isascii() and number.isdigit()
    if text in ("auto", "cuda", "emulator") or is_one_of_several or (text.isascii() and text.isdigit()):
        return text
    raise argparse.ArgumentTypeError(f"{text!r} is not auto, cuda, an ordinal, emulator or emulator:1")


def _saved(text: str) -> tuple[str, Path]:
    name, equals, path = text.partition("=")
    if not (name and equals and path.endswith(".npy")):
        raise argparse.ArgumentTypeError(f"{text!r} is not NAME=PATH.npy")
    return name, Path(path)


def _known(text: str) -> tuple[str, str]:
    name, equals, value = text.strip().partition("=")
    if not (name and equals and value):
        raise argparse.ArgumentTypeError(f"{text!r} is not NAME=VALUE")
    return name, value


def _grid(text: str) -> tuple[int, ...]:
    axes = text.split(",")
    if not 1 <= len(axes) <= 3 or not all(axis.isascii() and axis.isdigit() and int(axis) > 0 for axis in axes):
        raise argparse.ArgumentTypeError(f"{text.strip()!r} is not one to three numbers of blocks, each at least 1")
    return tuple(map(int, axes))


def _targets(text: str) -> list[str]:
    return [name.strip() for name in text.split(",") if name.strip()]


def _positive(text: str) -> int:
    if not (text.isascii() and text.isdigit() and int(text) > 0):
        raise argparse.ArgumentTypeError(f"{text.strip()!r} is not a number of at least 1")
    return int(text)


def _seed(text: str) -> int:
    if not (text.isascii() and text.isdigit()):
        raise argparse.ArgumentTypeError(f"{text.strip()!r} is not a number of at least 0")
    return int(text)
