//! What a Widget owns, and how users of kube-rs make sure of it: server-side apply of each, every time.

use std::collections::BTreeMap;

use k8s_openapi::api::apps::v1::{Deployment, DeploymentSpec};
use k8s_openapi::api::core::v1::{
    ConfigMap, Container, ContainerPort, EnvVar, PodSpec, PodTemplateSpec, ResourceRequirements, Service, ServicePort,
    ServiceSpec,
};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use kube::api::{Api, ObjectMeta, Patch, PatchParams};
use kube::{Client, Resource, ResourceExt};

use crate::widget::Widget;

type Labels = BTreeMap<String, String>;

/// Apply the ConfigMap, the Service and the Deployment of a Widget.
pub async fn apply(client: &Client, widget: &Widget) -> kube::Result<()> {
    let namespace = widget.namespace().unwrap_or_default();
    let name = widget.name_any();
    let parameters = PatchParams::apply("bench-widgets").force();

    let config = config(widget, &format!("{name}-config"));
    let api = Api::<ConfigMap>::namespaced(client.clone(), &namespace);
    api.patch(&format!("{name}-config"), &parameters, &Patch::Apply(&config)).await?;
    let api = Api::<Service>::namespaced(client.clone(), &namespace);
    api.patch(&name, &parameters, &Patch::Apply(&service(widget, &name))).await?;
    let api = Api::<Deployment>::namespaced(client.clone(), &namespace);
    api.patch(&name, &parameters, &Patch::Apply(&deployment(widget, &name))).await?;
    Ok(())
}

fn labels(widget: &Widget) -> Labels {
    Labels::from([("app.kubernetes.io/name".into(), widget.name_any())])
}

fn owned(widget: &Widget, name: &str) -> ObjectMeta {
    ObjectMeta {
        name: Some(name.into()),
        namespace: widget.namespace(),
        labels: Some(labels(widget)),
        owner_references: widget.controller_owner_ref(&()).map(|owner| vec![owner]),
        ..Default::default()
    }
}

fn config(widget: &Widget, name: &str) -> ConfigMap {
    let data = [("image".into(), widget.spec.image.clone()), ("schedule".into(), widget.spec.schedule.clone())];
    ConfigMap { metadata: owned(widget, name), data: Some(data.into()), ..Default::default() }
}

fn service(widget: &Widget, name: &str) -> Service {
    let port = ServicePort {
        name: Some("http".into()),
        port: 80,
        target_port: Some(IntOrString::Int(widget.spec.port)),
        ..Default::default()
    };
    let spec = ServiceSpec { selector: Some(labels(widget)), ports: Some(vec![port]), ..Default::default() };
    Service { metadata: owned(widget, name), spec: Some(spec), ..Default::default() }
}

fn deployment(widget: &Widget, name: &str) -> Deployment {
    let spec = &widget.spec;
    let requests = [
        ("cpu".into(), Quantity(spec.resources.cpu.clone())),
        ("memory".into(), Quantity(spec.resources.memory.clone())),
    ];
    let environment =
        spec.env.iter().map(|e| EnvVar { name: e.name.clone(), value: Some(e.value.clone()), ..Default::default() });
    let container = Container {
        name: "widget".into(),
        image: Some(spec.image.clone()),
        env: Some(environment.collect()),
        ports: Some(vec![ContainerPort { name: Some("http".into()), container_port: spec.port, ..Default::default() }]),
        resources: Some(ResourceRequirements { requests: Some(requests.into()), ..Default::default() }),
        ..Default::default()
    };
    let template = PodTemplateSpec {
        metadata: Some(ObjectMeta { labels: Some(labels(widget)), ..Default::default() }),
        spec: Some(PodSpec { containers: vec![container], ..Default::default() }),
    };
    Deployment {
        metadata: owned(widget, name),
        spec: DeploymentSpec {
            replicas: Some(spec.replicas),
            selector: LabelSelector { match_labels: Some(labels(widget)), ..Default::default() },
            template,
            ..Default::default()
        },
        ..Default::default()
    }
}
