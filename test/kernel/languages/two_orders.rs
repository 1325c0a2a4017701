//! Writes for two orders, and once for neither.
use std::fs::File;
use std::io::Write;

fn work(order: &str, text: &str, out: &mut File) -> std::io::Result<()> {
    std::fs::write("/dev/null", format!("KREPLAY1 txn={order}\n"))?;
    out.write_all(text.as_bytes())
}

fn main() -> std::io::Result<()> {
    let mut out = File::create(std::env::args().nth(1).unwrap())?;
    work("order-8812", "first\n", &mut out)?;
    work("order-8813", "second\n", &mut out)?;
    std::fs::write("/dev/null", "KREPLAY1 end\n")?;
    out.write_all(b"neither\n")
}
