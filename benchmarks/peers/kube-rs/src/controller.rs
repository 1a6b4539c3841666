//! The modes with a controller, wired as kube-rs's guide to optimization wires them: a stream of ours into a store,
//! the generation predicate between that and the controller; several controllers share one stream.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::Duration;

use futures::future::join_all;
use futures::stream::BoxStream;
use futures::{StreamExt, TryStreamExt};
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::{ConfigMap, Service};
use kube::api::{Api, Patch, PatchParams};
use kube::runtime::controller::{self, Action, Controller};
use kube::runtime::reflector::store::Writer;
use kube::runtime::watcher::{self, Event, watcher};
use kube::runtime::{WatchStreamExt, predicates};
use kube::{Client, Resource, ResourceExt};

use crate::children;
use crate::meter::METER;
use crate::options::{Mode, Options};
use crate::subject::{Scope, Subject};
use crate::synced;

/// What a reconcile needs.
struct Context<K: Subject> {
    client: Client,
    mode: Mode,
    dynamic: K::DynamicType,
}

/// How many events the controllers of a shared stream may lag behind it, as in kube-rs's own example.
const SHARED_BUFFER: usize = 1024;

/// Run one controller until SIGTERM.
pub async fn run<K: Subject>(client: Client, o: Options, scope: Scope, dynamic: K::DynamicType) {
    let writer = Writer::<K>::new(dynamic.clone());
    let store = writer.as_reader();
    let (events, synced) = watch::<K>(&client, &o, &scope, &dynamic);
    let objects = events
        .reflect(writer)
        .applied_objects()
        .predicate_filter(predicates::generation, Default::default())
        .inspect_ok(move |_| count(&synced));
    let controller = Controller::for_stream_with(objects, store, dynamic.clone());
    drive(controller, client, o, scope, dynamic).await;
}

/// Run several controllers on one stream until SIGTERM.
pub async fn run_shared<K: Subject<DynamicType = ()>>(client: Client, o: Options, scope: Scope) {
    let writer = Writer::<K>::new_shared(SHARED_BUFFER, ());
    let store = writer.as_reader();
    let (events, _) = watch::<K>(&client, &o, &scope, &());
    let controllers: Vec<_> = (0..o.controllers)
        .map(|index| {
            let mut newest = HashMap::new();
            let trigger = writer.subscribe().expect("the writer is shared").filter(move |object: &Arc<K>| {
                futures::future::ready(generation_changed(&mut newest, object.as_ref(), index == 0))
            });
            Controller::for_shared_stream(trigger, store.clone())
        })
        .collect();
    // A shared stream has to be polled beside its controllers; it fills their channels.
    let root = tokio::spawn(events.reflect_shared(writer).for_each(|_| futures::future::ready(())));
    join_all(controllers.into_iter().map(|c| drive(c, client.clone(), o.clone(), scope.clone(), ()))).await;
    root.abort();
}

type Events<K> = BoxStream<'static, watcher::Result<Event<K>>>;

/// The watch, and whether its first list is complete.
fn watch<K: Subject>(
    client: &Client,
    o: &Options,
    scope: &Scope,
    dynamic: &K::DynamicType,
) -> (Events<K>, Arc<AtomicBool>) {
    let complete = Arc::new(AtomicBool::new(false));
    let noting = complete.clone();
    let events = watcher(K::api(client, scope, dynamic), configuration()).default_backoff().inspect_ok(move |event| {
        if matches!(event, Event::InitDone) && !noting.swap(true, Relaxed) {
            synced::one_more();
        }
    });
    let events = match o.strip {
        true => events.modify(|object: &mut K| object.managed_fields_mut().clear()).boxed(),
        false => events.boxed(),
    };
    (events, complete)
}

fn configuration() -> watcher::Config {
    watcher::Config::default().streaming_lists()
}

fn count(synced: &AtomicBool) {
    let counter = if synced.load(Relaxed) { &METER.events } else { &METER.seen };
    counter.fetch_add(1, Relaxed);
}

/// `predicates::generation` for a shared stream, whose items kube-rs's own filter does not take.
fn generation_changed<K: Resource>(newest: &mut HashMap<String, Option<i64>>, object: &K, counts: bool) -> bool {
    let metadata = object.meta();
    let before = newest.insert(metadata.uid.clone().unwrap_or_default(), metadata.generation);
    let passes = metadata.generation.is_none() || before != Some(metadata.generation);
    if counts && passes {
        let counter = if before.is_none() { &METER.seen } else { &METER.events };
        counter.fetch_add(1, Relaxed);
    }
    passes
}

async fn drive<K: Subject>(
    controller: Controller<K>,
    client: Client,
    o: Options,
    scope: Scope,
    dynamic: K::DynamicType,
) {
    let controller = match o.mode {
        Mode::Apply => owning(controller, &client, &scope),
        _ => controller,
    };
    let context = Arc::new(Context { client, mode: o.mode, dynamic });
    controller
        .with_config(controller::Config::default().concurrency(o.workers))
        .shutdown_on_signal()
        .run(reconcile, error_policy, context)
        .for_each(|_| futures::future::ready(()))
        .await;
}

fn owning<K: Subject>(controller: Controller<K>, client: &Client, scope: &Scope) -> Controller<K> {
    controller
        .owns::<ConfigMap>(Subject::api(client, scope, &()), configuration())
        .owns::<Service>(Subject::api(client, scope, &()), configuration())
        .owns::<Deployment>(Subject::api(client, scope, &()), configuration())
}

/// Read the object, and in the modes that write, see to its status or its children.
async fn reconcile<K: Subject>(object: Arc<K>, context: Arc<Context<K>>) -> Result<Action, kube::Error> {
    let first = METER.reconciles.fetch_add(1, Relaxed) == 0;
    METER.stamped(object.meta());
    match context.mode {
        Mode::Patch => report(&object, &context).await?,
        Mode::Apply => {
            if let Some(widget) = object.as_widget() {
                children::apply(&context.client, widget).await?;
            }
        }
        Mode::Noop | Mode::Informer => {}
    }
    if first {
        METER.mark("first-reconcile");
    }
    Ok(Action::await_change())
}

async fn report<K: Subject>(object: &Arc<K>, context: &Context<K>) -> kube::Result<()> {
    let Some(patch) = object.due() else { return Ok(()) };
    let api: Api<K> = K::api(&context.client, &object.namespace(), &context.dynamic);
    api.patch_status(&object.name_any(), &PatchParams::default(), &Patch::Merge(patch)).await?;
    METER.patches.fetch_add(1, Relaxed);
    Ok(())
}

fn error_policy<K: Subject>(_: Arc<K>, _: &kube::Error, _: Arc<Context<K>>) -> Action {
    METER.errors.fetch_add(1, Relaxed);
    Action::requeue(Duration::from_secs(5))
}
