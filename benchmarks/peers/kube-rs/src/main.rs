//! The kube-rs peer of the benchmarks: watchers with a store, or controllers, in each form that kube-rs has, written
//! as its users write them and told nothing about the stub server it talks to.

mod children;
mod controller;
mod informer;
mod meter;
mod options;
mod subject;
mod synced;
mod widget;

use futures::FutureExt;
use futures::future::{BoxFuture, join_all};
use k8s_openapi::api::apps::v1::{Deployment, ReplicaSet};
use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::core::v1::{ConfigMap, Pod, Secret, Service, ServiceAccount};
use k8s_openapi::api::networking::v1::Ingress;
use k8s_openapi::api::rbac::v1::Role;
use kube::api::{ApiResource, DynamicObject};
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::core::PartialObjectMeta;
use kube::{Client, Config};
use tokio::signal::unix::{SignalKind, signal};

use crate::meter::METER;
use crate::options::{Mode, Options, impossible};
use crate::subject::{Scope, Subject};
use crate::widget::Widget;

type Running = Vec<BoxFuture<'static, ()>>;

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let o = Options::parse();
    METER.mark("starting");
    METER.obey();
    let file = Kubeconfig::read_from(&o.kubeconfig)?;
    let client = Client::try_from(Config::from_custom_kubeconfig(file, &KubeConfigOptions::default()).await?)?;
    let running = all(&client, &o);
    synced::expect(running.len());
    let running: Vec<_> = running.into_iter().map(tokio::spawn).collect();
    if o.mode == Mode::Informer {
        signal(SignalKind::terminate())?.recv().await;
    } else {
        join_all(running).await;
    }
    Ok(())
}

/// One informer or set of controllers for each kind and scope: a store of kube-rs holds one watch.
fn all(client: &Client, o: &Options) -> Running {
    match o.kind.as_str() {
        "widgets" => scoped::<Widget>(client, o),
        "pods" => scoped::<Pod>(client, o),
        "configmaps" => scoped::<ConfigMap>(client, o),
        "mixed" => mixed(client, o),
        other => impossible(&format!("kind {other:?} is not there")),
    }
}

fn scoped<K: Subject<DynamicType = ()>>(client: &Client, o: &Options) -> Running {
    let scopes: Vec<Scope> = match o.namespaces {
        0 => vec![None],
        n => (0..n).map(|i| Some(format!("bench-{i}"))).collect(),
    };
    let start = |scope| match o.mode {
        Mode::Informer => informer::<K>(client, o, scope),
        _ => controllers::<K>(client.clone(), o.clone(), scope),
    };
    scopes.into_iter().map(start).collect()
}

/// The eleven kinds of `--kind mixed`, an informer each.
fn mixed(client: &Client, o: &Options) -> Running {
    macro_rules! informers {
        ($($kind:ty),* $(,)?) => { vec![$(informer::<$kind>(client, o, None)),*] };
    }
    informers!(ConfigMap, Deployment, Ingress, Job, Pod, ReplicaSet, Role, Secret, Service, ServiceAccount, Widget,)
}

fn informer<K: Subject<DynamicType = ()>>(client: &Client, o: &Options, scope: Scope) -> BoxFuture<'static, ()> {
    let (client, o, erased) = (client.clone(), o.clone(), ApiResource::erase::<K>(&()));
    match o.form.as_str() {
        "typed" => informer::run::<K>(client, o, scope, ()).boxed(),
        "metadata" => informer::run::<PartialObjectMeta>(client, o, scope, erased).boxed(),
        "unstructured" => informer::run::<DynamicObject>(client, o, scope, erased).boxed(),
        other => impossible(&format!("form {other:?} is not there")),
    }
}

fn controllers<K: Subject<DynamicType = ()>>(client: Client, o: Options, scope: Scope) -> BoxFuture<'static, ()> {
    let erased = ApiResource::erase::<K>(&());
    match o.form.as_str() {
        "typed" if o.controllers > 1 => controller::run_shared::<K>(client, o, scope).boxed(),
        "typed" => controller::run::<K>(client, o, scope, ()).boxed(),
        "metadata" => controller::run::<PartialObjectMeta>(client, o, scope, erased).boxed(),
        "unstructured" => controller::run::<DynamicObject>(client, o, scope, erased).boxed(),
        other => impossible(&format!("form {other:?} is not there")),
    }
}
