// Package v1 uses every marker that controller-gen knows for schemas, once.
// +groupName=wide.example.com
package v1

import (
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// +kubebuilder:validation:Enum=Red;Green
type Colour string

type Port struct {
	// +required
	Name string `json:"name"`
	// +required
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=65535
	Number int64 `json:"number"`
}

// +kubebuilder:validation:XValidation:rule="self.low <= self.high",message="low must not be above high",reason=FieldValueForbidden,fieldPath=".low"
type Range struct {
	// +kubebuilder:default=0
	// +optional
	Low int64 `json:"low"`
	// +kubebuilder:default=10
	// +optional
	High int64 `json:"high"`
}

// +structType=atomic
type Pair struct {
	// +required
	Left string `json:"left"`
	// +required
	Right string `json:"right"`
}

type WideSpec struct {
	// +kubebuilder:validation:ExclusiveMinimum=true
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:ExclusiveMaximum=true
	// +kubebuilder:validation:Maximum=100
	// +kubebuilder:validation:MultipleOf=5
	// +required
	Step int64 `json:"step"`
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=8
	// +kubebuilder:validation:Pattern=`^[a-z]+$`
	// +required
	Word string `json:"word"`
	// +kubebuilder:validation:Format=uuid
	// +optional
	ID *string `json:"id,omitempty"`
	// +kubebuilder:default=Red
	// +optional
	Colour Colour `json:"colour,omitempty"`
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=4
	// +listType=map
	// +listMapKey=name
	// +optional
	Ports []Port `json:"ports,omitempty"`
	// +kubebuilder:validation:items:MaxLength=5
	// +listType=set
	// +optional
	Names []string `json:"names,omitempty"`
	// +listType=atomic
	// +optional
	Args []string `json:"args,omitempty"`
	// +kubebuilder:validation:MinProperties=1
	// +kubebuilder:validation:MaxProperties=3
	// +mapType=atomic
	// +optional
	Labels map[string]string `json:"labels,omitempty"`
	// +optional
	Pair *Pair `json:"pair,omitempty"`
	// +kubebuilder:default={}
	// +optional
	Range Range `json:"range,omitzero"`
	// +nullable
	// +optional
	Maybe *string `json:"maybe,omitempty"`
	// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="fixed is immutable"
	// +required
	Fixed string `json:"fixed"`
	// +optional
	Size *resource.Quantity `json:"size,omitempty"`
	// +optional
	Wait *metav1.Duration `json:"wait,omitempty"`
	// +optional
	Until *metav1.Time `json:"until,omitempty"`
	// +optional
	Blob []byte `json:"blob,omitempty"`
	// +optional
	Target *intstr.IntOrString `json:"target,omitempty"`
	// +kubebuilder:pruning:PreserveUnknownFields
	// +optional
	Raw *runtime.RawExtension `json:"raw,omitempty"`
	// +optional
	Any *apiextensionsv1.JSON `json:"any,omitempty"`
	// +kubebuilder:validation:EmbeddedResource
	// +kubebuilder:pruning:PreserveUnknownFields
	// +optional
	Object *runtime.RawExtension `json:"object,omitempty"`
	// +optional
	Selector *metav1.LabelSelector `json:"selector,omitempty"`
	// +optional
	Env []corev1.EnvVar `json:"env,omitempty"`
	// +optional
	Resources corev1.ResourceRequirements `json:"resources,omitzero"`
	// +kubebuilder:validation:Type=number
	// +kubebuilder:validation:Format=double
	// +optional
	Ratio *float64 `json:"ratio,omitempty"`
	// +kubebuilder:default=1
	// +optional
	Replicas int32 `json:"replicas,omitempty"`
	// +optional
	Zone *string `json:"zone,omitempty"`
}

type WideStatus struct {
	// +optional
	Phase string `json:"phase,omitempty"`
	// +optional
	Replicas int32 `json:"replicas,omitempty"`
	// +optional
	Selector string `json:"selector,omitempty"`
}

// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:subresource:scale:specpath=.spec.replicas,statuspath=.status.replicas,selectorpath=.status.selector
// +kubebuilder:resource:path=wides,singular=wide,shortName=wd;wid,categories=all
// +kubebuilder:printcolumn:name="Phase",type=string,JSONPath=`.status.phase`,description="Where it is",priority=1
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:selectablefield:JSONPath=`.spec.zone`
// +kubebuilder:deprecatedversion:warning="use v2"
type Wide struct {
	metav1.TypeMeta `json:",inline"`
	// +optional
	metav1.ObjectMeta `json:"metadata,omitzero"`
	// +required
	Spec WideSpec `json:"spec"`
	// +optional
	Status WideStatus `json:"status,omitzero"`
}
