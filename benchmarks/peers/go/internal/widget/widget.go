// Package widget is the custom resource of the benchmarks, as controller-gen would have written it.
package widget

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// EnvVar is a name and a value.
type EnvVar struct {
	Name  string `json:"name"`
	Value string `json:"value,omitempty"`
}

// Resources is what one replica asks for.
type Resources struct {
	CPU    string `json:"cpu,omitempty"`
	Memory string `json:"memory,omitempty"`
}

// WidgetSpec is what the user wants.
type WidgetSpec struct {
	Image     string    `json:"image"`
	Replicas  int32     `json:"replicas,omitempty"`
	Port      int32     `json:"port,omitempty"`
	Env       []EnvVar  `json:"env,omitempty"`
	Resources Resources `json:"resources,omitempty"`
	Schedule  string    `json:"schedule,omitempty"`
	Suspend   bool      `json:"suspend,omitempty"`
}

// WidgetStatus is what the controller saw.
type WidgetStatus struct {
	ObservedGeneration int64  `json:"observedGeneration,omitempty"`
	Phase              string `json:"phase,omitempty"`
	ReadyReplicas      int32  `json:"readyReplicas,omitempty"`
	Endpoint           string `json:"endpoint,omitempty"`
}

// Widget is the custom resource of the benchmarks.
type Widget struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`
	Spec              WidgetSpec   `json:"spec,omitempty"`
	Status            WidgetStatus `json:"status,omitempty"`
}

// WidgetList is a list of them.
type WidgetList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []Widget `json:"items"`
}

// GroupVersion is where Widgets are served.
var GroupVersion = schema.GroupVersion{Group: "bench.steersman.dev", Version: "v1"}

// AddToScheme makes Widgets known to clients.
func AddToScheme(scheme *runtime.Scheme) error {
	scheme.AddKnownTypes(GroupVersion, &Widget{}, &WidgetList{})
	metav1.AddToGroupVersion(scheme, GroupVersion)
	return nil
}

// Report is the status that a controller writes for a Widget.
func (in *Widget) Report() WidgetStatus {
	return WidgetStatus{
		ObservedGeneration: in.Generation,
		Phase:              "Ready",
		ReadyReplicas:      in.Spec.Replicas,
		Endpoint:           in.Name + "." + in.Namespace + ".svc:8080",
	}
}

// DeepCopyInto copies a Widget, as controller-gen would write it.
func (in *Widget) DeepCopyInto(out *Widget) {
	*out = *in
	in.ObjectMeta.DeepCopyInto(&out.ObjectMeta)
	if in.Spec.Env != nil {
		out.Spec.Env = make([]EnvVar, len(in.Spec.Env))
		copy(out.Spec.Env, in.Spec.Env)
	}
}

// DeepCopy copies a Widget.
func (in *Widget) DeepCopy() *Widget {
	out := new(Widget)
	in.DeepCopyInto(out)
	return out
}

// DeepCopyObject copies a Widget.
func (in *Widget) DeepCopyObject() runtime.Object { return in.DeepCopy() }

// DeepCopyObject copies a WidgetList.
func (in *WidgetList) DeepCopyObject() runtime.Object {
	out := &WidgetList{TypeMeta: in.TypeMeta, ListMeta: *in.ListMeta.DeepCopy()}
	for i := range in.Items {
		out.Items = append(out.Items, *in.Items[i].DeepCopy())
	}
	return out
}
