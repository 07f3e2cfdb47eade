//! With the feature `dpdk`: compiles the shim of that device against the installed libdpdk. Without: nothing.

fn main() {
    #[cfg(feature = "dpdk")]
    dpdk::build();
}

#[cfg(feature = "dpdk")]
mod dpdk {
    const SHIM: &str = "src/device/dpdk/shim.c";

    pub fn build() {
        println!("cargo::rerun-if-changed={SHIM}");
        let found = pkg_config::Config::new()
            .atleast_version("22.11")
            .probe("libdpdk")
            .unwrap_or_else(|cause| {
                panic!("the feature `dpdk` needs libdpdk 22.11 or later (Debian: apt-get install libdpdk-dev): {cause}")
            });
        let mut shim = cc::Build::new();
        shim.file(SHIM).includes(&found.include_paths);
        // Flags of libdpdk's own pkg-config file, which the crate does not hand on.
        shim.flag("-include").flag("rte_config.h");
        shim.flag_if_supported("-march=corei7");
        shim.compile("prony_dpdk");
    }
}
