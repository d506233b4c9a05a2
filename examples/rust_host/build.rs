// Links to the library that `vyre-cuda info --library-dir` names.
fn main() {
    let folder = std::env::var("VYRE_CUDA_LIBRARY_DIR")
        .expect("set VYRE_CUDA_LIBRARY_DIR to what `vyre-cuda info --library-dir` prints");
    println!("cargo:rerun-if-env-changed=VYRE_CUDA_LIBRARY_DIR");
    println!("cargo:rustc-link-search=native={folder}");
    println!("cargo:rustc-link-lib=dylib=vyre_cuda");
    println!("cargo:rustc-link-arg=-Wl,-rpath,{folder}");
}
