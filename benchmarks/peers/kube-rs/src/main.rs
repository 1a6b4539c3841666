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
use k8s_openapi::NamespaceResourceScope;
use k8s_openapi::api::apps::v1::{Deployment, ReplicaSet};
use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::core::v1::{ConfigMap, Pod, Secret, Service, ServiceAccount};
use k8s_openapi::api::networking::v1::Ingress;
use k8s_openapi::api::rbac::v1::Role;
use kube::api::{ApiResource, DynamicObject};
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::core::PartialObjectMeta;
use kube::{Client, Config, Resource};
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
        "widgets" => of::<Widget>(client, o),
        "pods" => of::<Pod>(client, o),
        "configmaps" => of::<ConfigMap>(client, o),
        "mixed" => [
            of::<Widget>,
            of::<Pod>,
            of::<ConfigMap>,
            of::<Secret>,
            of::<Service>,
            of::<ServiceAccount>,
            of::<Deployment>,
            of::<ReplicaSet>,
            of::<Job>,
            of::<Ingress>,
            of::<Role>,
        ]
        .into_iter()
        .flat_map(|kind| kind(client, o))
        .collect(),
        other => impossible(&format!("kind {other:?} is not there")),
    }
}

fn of<K>(client: &Client, o: &Options) -> Running
where
    K: Subject + Resource<DynamicType = (), Scope = NamespaceResourceScope>,
{
    let scopes: Vec<Scope> = match o.namespaces {
        0 => vec![None],
        n => (0..n).map(|i| Some(format!("bench-{i}"))).collect(),
    };
    let erased = ApiResource::erase::<K>(&());
    let start = |scope: Scope| match o.form.as_str() {
        "typed" => fixed::<K>(client.clone(), o.clone(), scope),
        "metadata" => fixed::<PartialObjectMeta<K>>(client.clone(), o.clone(), scope),
        "unstructured" => one::<DynamicObject>(client.clone(), o.clone(), scope, erased.clone()),
        other => impossible(&format!("form {other:?} is not there")),
    };
    scopes.into_iter().map(start).collect()
}

fn fixed<K: Subject<DynamicType = ()>>(client: Client, o: Options, scope: Scope) -> BoxFuture<'static, ()> {
    match o.controllers {
        1 => one::<K>(client, o, scope, ()),
        _ => controller::run_shared::<K>(client, o, scope).boxed(),
    }
}

fn one<K: Subject>(client: Client, o: Options, scope: Scope, dynamic: K::DynamicType) -> BoxFuture<'static, ()> {
    match o.mode {
        Mode::Informer => informer::run::<K>(client, o, scope, dynamic).boxed(),
        _ => controller::run::<K>(client, o, scope, dynamic).boxed(),
    }
}
