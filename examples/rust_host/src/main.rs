//! A bundle from Rust: a x + y, from four threads.
//!
//!     vyre-cuda bundle ../saxpy.vir -o saxpy.vyre
//!     VYRE_CUDA_LIBRARY_DIR=$(vyre-cuda info --library-dir) cargo run -- saxpy.vyre [DRIVER]
mod vyre;

use std::env;
use std::error::Error;
use std::thread;

fn main() -> Result<(), Box<dyn Error>> {
    let words: Vec<String> = env::args().collect();
    let driver = vyre::Driver::open(words.get(2).map(String::as_str))?;
    let context = vyre::Context::open(&driver, 0)?;
    let bundle = vyre::Bundle::open(words.get(1).ok_or("a bundle is missing")?)?;
    let saxpy = vyre::Kernel::load(&context, &bundle, "saxpy")?;
    let x: Vec<f32> = (0..1000).map(|i| i as f32).collect();
    let y = vec![1.0; x.len()];
    thread::scope(|threads| {
        let runs: Vec<_> = (1..=4)
            .map(|a| {
                let (saxpy, x, y) = (&saxpy, &x, &y);
                threads.spawn(move || {
                    let mut out = vec![0.0; x.len()];
                    saxpy.saxpy(x, y, &mut out, a as f32).map(|()| out[999])
                })
            })
            .collect();
        for run in runs {
            println!("{}", run.join().expect("a thread that panics")?);
        }
        Ok(())
    })
}
