//! The part of vyre_cuda.h that this host needs, and owners for it.
use std::ffi::{c_char, c_void, CStr, CString};
use std::fmt;
use std::ptr;

macro_rules! objects {
    ($($raw:ident $owner:ident $release:ident),*) => {$(
        #[repr(C)]
        pub struct $raw {
            _opaque: [u8; 0],
        }
        /// Owns one reference.
        pub struct $owner(*mut $raw);
        impl Drop for $owner {
            fn drop(&mut self) {
                unsafe { $release(self.0) }
            }
        }
        // Every function may be called from any thread.
        unsafe impl Send for $owner {}
        unsafe impl Sync for $owner {}
        extern "C" {
            fn $release(object: *mut $raw);
        }
    )*};
}
objects!(
    RawDriver Driver vyc_driver_release,
    RawContext Context vyc_context_release,
    RawBundle Bundle vyc_bundle_release,
    RawKernel Kernel vyc_bundled_kernel_release
);

const ARGUMENT_HOST: u32 = 1;

#[repr(C)]
struct Argument {
    kind: u32,
    reserved0: u32,
    count: u64,
    data: *const c_void,
    result: *mut c_void,
    buffer: *mut c_void,
    offset: u64,
    pinned: *mut c_void,
    reserved1: u64,
}

#[repr(C)]
struct Run {
    struct_size: u32,
    grid: [u32; 3],
    argument_count: u32,
    scalar_count: u32,
    arguments: *const Argument,
    scalars: *const u64,
    stream: *mut c_void,
    timeout_ns: i64,
    timing_out: *mut c_void,
    iterations: u32,
    origin: u32,
    contents: *const u64,
    flags: u32,
    reserved: u32,
}

extern "C" {
    fn vyc_last_message() -> *const c_char;
    fn vyc_driver_open(driver_out: *mut *mut RawDriver, path: *const c_char) -> u32;
    fn vyc_context_open(out: *mut *mut RawContext, driver: *mut RawDriver, ordinal: i32) -> u32;
    fn vyc_bundle_open(
        out: *mut *mut RawBundle,
        path: *const c_char,
        data: *const c_void,
        bytes: usize,
    ) -> u32;
    fn vyc_bundled_kernel_load(
        out: *mut *mut RawKernel,
        log_out: *mut c_char,
        log_bytes: usize,
        context: *mut RawContext,
        bundle: *mut RawBundle,
        name: *const c_char,
        tag: u64,
    ) -> u32;
    fn vyc_bundled_kernel_run(
        kernel: *mut RawKernel,
        ticket_out: *mut *mut c_void,
        run: *const Run,
    ) -> u32;
}

/// A status, and what the library says about it.
#[derive(Debug)]
pub struct Error {
    pub status: u32,
    pub message: String,
}

impl fmt::Display for Error {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(to, "status {}: {}", self.status, self.message)
    }
}
impl std::error::Error for Error {}

fn check(status: u32) -> Result<(), Error> {
    if status == 0 {
        return Ok(());
    }
    let message = unsafe { CStr::from_ptr(vyc_last_message()) };
    Err(Error {
        status,
        message: message.to_string_lossy().into_owned(),
    })
}

fn text(words: &str) -> CString {
    CString::new(words).expect("a text without NUL")
}

impl Driver {
    /// None: NVIDIA's.
    pub fn open(path: Option<&str>) -> Result<Driver, Error> {
        let path = path.map(text);
        let mut made = ptr::null_mut();
        let given = path.as_ref().map_or(ptr::null(), |path| path.as_ptr());
        check(unsafe { vyc_driver_open(&mut made, given) }).map(|()| Driver(made))
    }
}

impl Context {
    pub fn open(driver: &Driver, ordinal: i32) -> Result<Context, Error> {
        let mut made = ptr::null_mut();
        check(unsafe { vyc_context_open(&mut made, driver.0, ordinal) }).map(|()| Context(made))
    }
}

impl Bundle {
    pub fn open(path: &str) -> Result<Bundle, Error> {
        let (mut made, path) = (ptr::null_mut(), text(path));
        check(unsafe { vyc_bundle_open(&mut made, path.as_ptr(), ptr::null(), 0) })
            .map(|()| Bundle(made))
    }
}

impl Kernel {
    pub fn load(context: &Context, bundle: &Bundle, name: &str) -> Result<Kernel, Error> {
        let (mut made, name) = (ptr::null_mut(), text(name));
        let log = ptr::null_mut();
        check(unsafe {
            vyc_bundled_kernel_load(&mut made, log, 0, context.0, bundle.0, name.as_ptr(), 0)
        })
        .map(|()| Kernel(made))
    }

    /// The kernel `saxpy`, whose parameters are in f32 x, in f32 y, out f32 out, scalar f32 a.
    pub fn saxpy(&self, x: &[f32], y: &[f32], out: &mut [f32], a: f32) -> Result<(), Error> {
        let argument = |count: usize, data: *const f32, result: *mut f32| Argument {
            kind: ARGUMENT_HOST,
            reserved0: 0,
            count: count as u64,
            data: data.cast(),
            result: result.cast(),
            buffer: ptr::null_mut(),
            offset: 0,
            pinned: ptr::null_mut(),
            reserved1: 0,
        };
        let arguments = [
            argument(x.len(), x.as_ptr(), ptr::null_mut()),
            argument(y.len(), y.as_ptr(), ptr::null_mut()),
            argument(out.len(), ptr::null(), out.as_mut_ptr()),
        ];
        let scalars = [u64::from(a.to_bits())];
        let run = Run {
            struct_size: std::mem::size_of::<Run>() as u32,
            grid: [0; 3],
            argument_count: arguments.len() as u32,
            scalar_count: scalars.len() as u32,
            arguments: arguments.as_ptr(),
            scalars: scalars.as_ptr(),
            stream: ptr::null_mut(),
            timeout_ns: -1,
            timing_out: ptr::null_mut(),
            iterations: 0,
            origin: 0,
            contents: ptr::null(),
            flags: 0,
            reserved: 0,
        };
        check(unsafe { vyc_bundled_kernel_run(self.0, ptr::null_mut(), &run) })
    }
}
