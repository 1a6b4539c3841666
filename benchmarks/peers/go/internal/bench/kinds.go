package bench

import (
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"

	"steersman.dev/benchmarks/peers/go/internal/widget"
)

// Object is any API object; controller-runtime's client.Object is the same.
type Object interface {
	metav1.Object
	runtime.Object
}

// Kind is one kind of the benchmarks.
type Kind struct {
	Resource schema.GroupVersionResource
	GVK      schema.GroupVersionKind
	Typed    Object
	// Its objects have a generation, by which controllers tell a change of the spec from others.
	Generation bool
}

var withoutGeneration = []string{"ConfigMap", "Secret", "Service", "ServiceAccount", "Role"}

func kind(gv schema.GroupVersion, name, plural string, typed Object) Kind {
	generation := !slices.Contains(withoutGeneration, name)
	return Kind{Resource: gv.WithResource(plural), GVK: gv.WithKind(name), Typed: typed, Generation: generation}
}

// kinds is everything of -kind mixed.
var kinds = []Kind{
	kind(widget.GroupVersion, "Widget", "widgets", &widget.Widget{}),
	kind(corev1.SchemeGroupVersion, "Pod", "pods", &corev1.Pod{}),
	kind(corev1.SchemeGroupVersion, "ConfigMap", "configmaps", &corev1.ConfigMap{}),
	kind(corev1.SchemeGroupVersion, "Secret", "secrets", &corev1.Secret{}),
	kind(corev1.SchemeGroupVersion, "Service", "services", &corev1.Service{}),
	kind(corev1.SchemeGroupVersion, "ServiceAccount", "serviceaccounts", &corev1.ServiceAccount{}),
	kind(appsv1.SchemeGroupVersion, "Deployment", "deployments", &appsv1.Deployment{}),
	kind(appsv1.SchemeGroupVersion, "ReplicaSet", "replicasets", &appsv1.ReplicaSet{}),
	kind(batchv1.SchemeGroupVersion, "Job", "jobs", &batchv1.Job{}),
	kind(networkingv1.SchemeGroupVersion, "Ingress", "ingresses", &networkingv1.Ingress{}),
	kind(rbacv1.SchemeGroupVersion, "Role", "roles", &rbacv1.Role{}),
}

// Kinds is what -kind names: one kind, or all of mixed. None: the name is unknown.
func (o *Options) Kinds() []Kind {
	if o.Kind == "mixed" {
		return kinds
	}
	for _, k := range kinds {
		if k.Resource.Resource == o.Kind {
			return []Kind{k}
		}
	}
	return nil
}

// As is an empty object of the kind in a form.
func (k Kind) As(form string) Object {
	switch form {
	case "unstructured":
		object := &unstructured.Unstructured{}
		object.SetGroupVersionKind(k.GVK)
		return object
	case "metadata":
		object := &metav1.PartialObjectMetadata{}
		object.SetGroupVersionKind(k.GVK)
		return object
	default:
		return k.Typed.DeepCopyObject().(Object)
	}
}

// Scheme knows the built-in kinds, as scaffolded operators have it, and Widgets.
func Scheme() (*runtime.Scheme, error) {
	scheme := runtime.NewScheme()
	if err := clientgoscheme.AddToScheme(scheme); err != nil {
		return nil, err
	}
	return scheme, widget.AddToScheme(scheme)
}
