//! Instances come, go and die under constant load.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use hyper::Method;
use hyper_util::rt::TokioIo;
use tokio::net::TcpStream;
use tokio::task::JoinSet;

use crate::backend::Backend;
use crate::client::{self, request};
use crate::world::{World, eventually};

const CLIENTS: usize = 8;
const ROUNDS: usize = 20;
const PAYLOAD: &str = "a body that must arrive whole";

/// Clients that ask all the time and note every answer that is not as it should be.
struct Load {
    stop: Arc<AtomicBool>,
    /// Answers that each client got.
    done: Arc<[AtomicUsize; CLIENTS]>,
    clients: JoinSet<Vec<String>>,
}

impl Load {
    fn start(world: &World, methods: &'static [Method]) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let done: Arc<[AtomicUsize; CLIENTS]> = Arc::default();
        let mut clients = JoinSet::new();
        for number in 0..CLIENTS {
            let (stop, done, address) = (stop.clone(), done.clone(), world.address);
            clients.spawn(async move {
                let stream = TcpStream::connect(address).await.unwrap();
                let (mut sender, connection) =
                    hyper::client::conn::http1::handshake(TokioIo::new(stream)).await.unwrap();
                tokio::spawn(connection);
                let mut bad = Vec::new();
                for method in methods.iter().cycle() {
                    if stop.load(Ordering::SeqCst) {
                        break;
                    }
                    let (path, body) = if *method == Method::POST { ("/upload", PAYLOAD) } else { ("/", "") };
                    match client::exchange(&mut sender, request(method.clone(), "x.com", path, body)).await {
                        Ok(answer) if answer.status == 200 => drop(done[number].fetch_add(1, Ordering::SeqCst)),
                        Ok(answer) => bad.push(format!("{method} {}", answer.verdict())),
                        Err(error) => {
                            bad.push(format!("{method} {error}"));
                            break;
                        }
                    }
                }
                bad
            });
        }
        Self { stop, done, clients }
    }

    /// Returns when every client got an answer to a request that it sent after this was called; so nothing is left of what was
    /// decided before.
    async fn goes_on(&self) {
        let counts = || self.done.iter().map(|done| done.load(Ordering::SeqCst));
        let before: Vec<usize> = counts().collect();
        eventually(|| async { counts().zip(&before).all(|(now, before)| now > before + 1) }).await;
    }

    async fn end(self) -> Vec<String> {
        self.stop.store(true, Ordering::SeqCst);
        self.clients.join_all().await.concat()
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn no_request_fails_while_instances_are_replaced() {
    let world = World::start().await;
    let mut current = Backend::start("0").await;
    world.register("x.com", &current).await;
    let load = Load::start(&world, &[Method::GET, Method::POST]);
    for round in 1..=ROUNDS {
        load.goes_on().await;
        let next = Backend::start(&round.to_string()).await;
        world.register("x.com", &next).await;
        world.unregister("x.com", &current).await;
        // What is in flight may finish; nothing new comes.
        load.goes_on().await;
        let served = current.served();
        load.goes_on().await;
        assert_eq!((current.served(), current.active()), (served, 0));
        current.kill();
        current = next;
    }
    assert_eq!(load.end().await, Vec::<String>::new());
}

#[tokio::test(flavor = "multi_thread")]
async fn an_instance_that_dies_without_a_word_costs_no_request_that_can_be_repeated() {
    let world = World::start().await;
    let stays = Backend::start("stays").await;
    world.register("x.com", &stays).await;
    let load = Load::start(&world, &[Method::GET, Method::HEAD, Method::OPTIONS]);
    for round in 0..ROUNDS {
        let dies = Backend::start(&format!("dies {round}")).await;
        world.register("x.com", &dies).await;
        eventually(|| async { dies.served() > CLIENTS }).await;
        dies.kill();
        load.goes_on().await;
        world.unregister("x.com", &dies).await;
    }
    assert_eq!(load.end().await, Vec::<String>::new());
    assert!(world.metrics.retries.get() > 0, "nobody was asked twice; the test tests nothing");
}

#[tokio::test]
async fn a_request_that_may_have_been_carried_out_is_not_repeated() {
    let world = World::start().await;
    let (one, two) = (Backend::start("one").await, Backend::start("two").await);
    world.register("x.com", &one).await;
    let address = world.address;
    let asked =
        tokio::spawn(async move { client::send(address, request(Method::POST, "x.com", "/wait", "once")).await });
    one.entered().await;
    world.register("x.com", &two).await;
    one.kill();
    assert_eq!(asked.await.unwrap().unwrap().verdict(), "502 endpoint_failure (connection lost)");
    assert_eq!(two.served(), 0);
}

#[tokio::test]
async fn a_request_whose_instance_refuses_the_connection_reaches_another_with_its_body() {
    let world = World::start().await;
    let (gone, there) = (Backend::start("gone").await, Backend::start("there").await);
    gone.kill();
    world.register("x.com", &gone).await;
    world.register("x.com", &there).await;
    eventually(|| async { tokio::net::TcpStream::connect(gone.address).await.is_err() }).await;
    for _ in 0..4 {
        let answer = client::send(world.address, request(Method::POST, "x.com", "/upload", PAYLOAD)).await.unwrap();
        assert_eq!(answer.body, format!("there got {}\n", PAYLOAD.len()));
    }
    assert!(world.metrics.retries.get() > 0);
}

#[tokio::test]
async fn a_request_in_flight_finishes_on_an_instance_that_is_unregistered() {
    let world = World::start().await;
    let one = Backend::start("one").await;
    world.register("x.com", &one).await;
    let address = world.address;
    let asked = tokio::spawn(async move { client::get(address, "x.com", "/wait").await });
    one.entered().await;
    world.unregister("x.com", &one).await;
    assert_eq!(world.get("x.com", "/").await.verdict(), "503 no_endpoints");
    one.release();
    assert_eq!(asked.await.unwrap().body, "one waited\n");
}
