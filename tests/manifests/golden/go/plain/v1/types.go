// Package v1 has the kinds of a fresh scaffold: one of a namespace, one of the cluster with a plural of its own.
// +groupName=crew.testproject.org
package v1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

type CaptainSpec struct {
	// +optional
	Foo *string `json:"foo,omitempty"`
}

type CaptainStatus struct {
	// +listType=map
	// +listMapKey=type
	// +optional
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
type Captain struct {
	metav1.TypeMeta `json:",inline"`
	// +optional
	metav1.ObjectMeta `json:"metadata,omitzero"`
	// +required
	Spec CaptainSpec `json:"spec"`
	// +optional
	Status CaptainStatus `json:"status,omitzero"`
}

// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:path=admirales,scope=Cluster
type Admiral struct {
	metav1.TypeMeta `json:",inline"`
	// +optional
	metav1.ObjectMeta `json:"metadata,omitzero"`
	// +required
	Spec CaptainSpec `json:"spec"`
	// +optional
	Status CaptainStatus `json:"status,omitzero"`
}
