//! The ground's own tests.
use garm_operator_ground::{ControlPlane, Guard, servers::Servers};
use std::time::Instant;
fn main() {
    garm_operator_ground::entry();
    let servers = Servers::ensure().unwrap();
    let dir = tempfile::tempdir().unwrap();
    let guard = Guard::start().unwrap();
    tokio::runtime::Runtime::new().unwrap().block_on(async {
        let t = Instant::now();
        let mut plane = ControlPlane::start(&servers, &guard, dir.path())
            .await
            .unwrap();
        println!("{:?}", t.elapsed());
        let ns = plane.create_namespace("x").await.unwrap();
        println!("{}", plane.kubectl_ok(&["get", "ns"], "").await.unwrap());
        println!(
            "{}",
            plane.kubectl_ok(&["delete", "ns", &ns], "").await.unwrap()
        );
        println!("{:?}", t.elapsed());
        let proxy = plane.proxy().await.unwrap();
        println!(
            "{}",
            plane
                .kubectl_ok(&["get", "ns", "--server", &proxy.url()], "")
                .await
                .unwrap()
        );
        println!("{:#?}", proxy.requests());
        plane.check_running().unwrap();
        plane.stop().await.unwrap();
        println!("{:?}", t.elapsed());
    });
}
