//! What a kind in one of its forms (typed, unstructured, metadata) must offer to be watched and reconciled here.

use std::fmt::Debug;
use std::hash::Hash;

use k8s_openapi::NamespaceResourceScope;
use k8s_openapi::api::apps::v1::{Deployment, ReplicaSet};
use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::core::v1::{ConfigMap, Pod, Secret, Service, ServiceAccount};
use k8s_openapi::api::networking::v1::Ingress;
use k8s_openapi::api::rbac::v1::Role;
use kube::api::{Api, DynamicObject};
use kube::core::PartialObjectMeta;
use kube::{Client, Resource, ResourceExt};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use crate::widget::{Widget, WidgetStatus};

/// Where a watch looks: in one namespace, or (None) in all.
pub type Scope = Option<String>;

pub trait Subject: Resource<DynamicType: Dynamic> + Clone + Debug + DeserializeOwned + Send + Sync + 'static {
    fn api(client: &Client, scope: &Scope, dynamic: &Self::DynamicType) -> Api<Self>;

    /// The status patch that is due, None when the status says so already.
    fn due(&self) -> Option<Value> {
        None
    }

    fn as_widget(&self) -> Option<&Widget> {
        None
    }
}

pub trait Dynamic: Clone + Debug + Eq + Hash + Send + Sync + Unpin + 'static {}
impl<T: Clone + Debug + Eq + Hash + Send + Sync + Unpin + 'static> Dynamic for T {}

fn typed<K>(client: &Client, scope: &Scope) -> Api<K>
where
    K: Resource<DynamicType = (), Scope = NamespaceResourceScope>,
{
    match scope {
        Some(namespace) => Api::namespaced(client.clone(), namespace),
        None => Api::all(client.clone()),
    }
}

impl Subject for Widget {
    fn api(client: &Client, scope: &Scope, (): &()) -> Api<Self> {
        typed(client, scope)
    }

    fn due(&self) -> Option<Value> {
        let status = WidgetStatus {
            observed_generation: self.metadata.generation.unwrap_or_default(),
            phase: "Ready".into(),
            ready_replicas: self.spec.replicas,
            endpoint: endpoint(self),
        };
        (self.status.as_ref() != Some(&status)).then(|| json!({ "status": status }))
    }

    fn as_widget(&self) -> Option<&Widget> {
        Some(self)
    }
}

impl Subject for DynamicObject {
    fn api(client: &Client, scope: &Scope, dynamic: &Self::DynamicType) -> Api<Self> {
        match scope {
            Some(namespace) => Api::namespaced_with(client.clone(), namespace, dynamic),
            None => Api::all_with(client.clone(), dynamic),
        }
    }

    fn due(&self) -> Option<Value> {
        let status = json!({
            "observedGeneration": self.metadata.generation.unwrap_or_default(),
            "phase": "Ready",
            "readyReplicas": self.data["spec"]["replicas"],
            "endpoint": endpoint(self),
        });
        (self.data["status"] != status).then(|| json!({ "status": status }))
    }
}

fn endpoint(object: &impl ResourceExt) -> String {
    format!("{}.{}.svc:8080", object.name_any(), object.namespace().unwrap_or_default())
}

/// Only the metadata of a kind: the client asks the server for no more.
impl Subject for PartialObjectMeta<DynamicObject> {
    fn api(client: &Client, scope: &Scope, dynamic: &Self::DynamicType) -> Api<Self> {
        match scope {
            Some(namespace) => Api::namespaced_with(client.clone(), namespace, dynamic),
            None => Api::all_with(client.clone(), dynamic),
        }
    }
}

macro_rules! built_in {
    ($($kind:ty),* $(,)?) => {$(
        impl Subject for $kind {
            fn api(client: &Client, scope: &Scope, (): &()) -> Api<Self> {
                typed(client, scope)
            }
        }
    )*};
}

built_in!(ConfigMap, Deployment, Ingress, Job, Pod, ReplicaSet, Role, Secret, Service, ServiceAccount);
