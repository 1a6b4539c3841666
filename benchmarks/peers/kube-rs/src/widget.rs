//! The custom resource of the benchmarks, as a user of kube-rs derives it.

use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

#[derive(CustomResource, Clone, Debug, Deserialize, Serialize, JsonSchema)]
#[kube(group = "bench.steersman.dev", version = "v1", kind = "Widget", namespaced, status = "WidgetStatus")]
#[serde(rename_all = "camelCase")]
pub struct WidgetSpec {
    pub image: String,
    #[serde(default)]
    pub replicas: i32,
    #[serde(default)]
    pub port: i32,
    #[serde(default)]
    pub env: Vec<EnvVar>,
    #[serde(default)]
    pub resources: Resources,
    #[serde(default)]
    pub schedule: String,
    #[serde(default)]
    pub suspend: bool,
}

#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
pub struct EnvVar {
    pub name: String,
    #[serde(default)]
    pub value: String,
}

#[derive(Clone, Debug, Default, Deserialize, Serialize, JsonSchema)]
pub struct Resources {
    #[serde(default)]
    pub cpu: String,
    #[serde(default)]
    pub memory: String,
}

#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct WidgetStatus {
    #[serde(default)]
    pub observed_generation: i64,
    #[serde(default)]
    pub phase: String,
    #[serde(default)]
    pub ready_replicas: i32,
    #[serde(default)]
    pub endpoint: String,
}
