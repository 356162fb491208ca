use crate::files::*;
use store::embedded::*;
use store::*;
#[tokio::test(flavor = "multi_thread")]
async fn speed() {
    let dir = tempfile::tempdir_in("/var/tmp").unwrap();
    let t = std::time::Instant::now();
    let (store, held) = open_with_master(dir.path(), Options::default()).await;
    for g in 0..400u32 {
        let steps: Vec<Step> = (0..25u32)
            .map(|s| {
                let mut st = Step::default();
                for k in 0..100u32 {
                    let n = (g * 2500 + s * 100 + k).wrapping_mul(2654435761);
                    st.put(format!("/v1442529338/actual/{n:010}/x"), vec![n as u8; 1000]);
                }
                st
            })
            .collect();
        store.commit(&held, &steps).await.unwrap();
    }
    println!("load {:?} {}", t.elapsed(), store.describe());
    let scan = async |store: &Embedded| {
        let t = std::time::Instant::now();
        let mut after = None;
        let mut n = 0;
        loop {
            let p = store.scan("", after.as_deref(), 1_000_000).await.unwrap();
            n += p.records.len();
            match p.next {
                Some(x) => after = Some(x),
                None => break,
            }
        }
        println!("scan {n} {:?}", t.elapsed());
    };
    scan(&store).await;
    drop((store, held));
    let t = std::time::Instant::now();
    let (store, held) = open_with_master(dir.path(), Options::default()).await;
    println!("open {:?}", t.elapsed());
    let mut lat = vec![];
    for i in 0..500 {
        let t = std::time::Instant::now();
        store.commit(&held, &[put(&format!("/x/{i}"), "y")]).await.unwrap();
        lat.push(t.elapsed());
    }
    lat.sort();
    println!("commit p50 {:?} max {:?}", lat[250], lat[499]);
    let store = std::sync::Arc::new(store);
    let t = std::time::Instant::now();
    let s2 = store.clone();
    let cp = tokio::spawn(async move { s2.checkpoint().await.unwrap() });
    let mut lat = vec![];
    while !cp.is_finished() {
        let t = std::time::Instant::now();
        store.commit(&held, &[put("/x/1", "y")]).await.unwrap();
        lat.push(t.elapsed());
    }
    lat.sort();
    println!(
        "checkpoint {:?}; commits during {} p50 {:?} p99 {:?} max {:?}",
        t.elapsed(),
        lat.len(),
        lat[lat.len() / 2],
        lat[lat.len() * 99 / 100],
        lat[lat.len() - 1]
    );
    scan(&store).await;
    drop((store, held));
    let t = std::time::Instant::now();
    let (_store, _held) = open_with_master(dir.path(), Options::default()).await;
    println!("open from checkpoint {:?}", t.elapsed());
}
