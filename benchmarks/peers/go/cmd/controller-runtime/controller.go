package main

import (
	"context"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/predicate"

	"steersman.dev/benchmarks/peers/go/internal/bench"
	"steersman.dev/benchmarks/peers/go/internal/meter"
	"steersman.dev/benchmarks/peers/go/internal/widget"
)

// addController adds the i-th controller of the kind. The first one counts what it is told.
func (p *peer) addController(mgr ctrl.Manager, i int) error {
	kind := p.Kinds()[0]
	var passes predicate.Predicate = predicate.ResourceVersionChangedPredicate{}
	if kind.Generation {
		passes = predicate.GenerationChangedPredicate{}
	}
	if i == 0 {
		passes = predicate.And(passes, counting(p.m))
	}
	options := []builder.ForOption{builder.WithPredicates(passes)}
	if p.Form == "metadata" {
		options = append(options, builder.OnlyMetadata)
	}
	b := ctrl.NewControllerManagedBy(mgr).Named(name(i)).For(kind.As(p.Form), options...).
		WithOptions(controller.Options{MaxConcurrentReconciles: p.Workers})
	if p.Mode == "apply" {
		b = b.Owns(&corev1.ConfigMap{}).Owns(&corev1.Service{}).Owns(&appsv1.Deployment{})
	}
	r := &reconciler{Client: mgr.GetClient(), scheme: mgr.GetScheme(), m: p.m, mode: p.Mode, kind: kind, form: p.Form}
	return b.Complete(r)
}

func counting(m *meter.Meter) predicate.Predicate {
	return predicate.Funcs{
		CreateFunc: func(event.CreateEvent) bool { m.Seen.Add(1); return true },
		UpdateFunc: func(event.UpdateEvent) bool { m.Events.Add(1); return true },
	}
}

type reconciler struct {
	client.Client
	scheme     *runtime.Scheme
	m          *meter.Meter
	mode, form string
	kind       bench.Kind
}

// Reconcile reads the object and does what the mode says.
func (r *reconciler) Reconcile(ctx context.Context, request ctrl.Request) (ctrl.Result, error) {
	if r.m.Reconciles.Add(1) == 1 {
		defer r.m.Mark("first-reconcile")
	}
	object := r.kind.As(r.form)
	if err := r.Get(ctx, request.NamespacedName, object); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	r.m.Stamped(object.GetAnnotations())
	err := r.act(ctx, object)
	if err != nil && !apierrors.IsAlreadyExists(err) { // a cache that has not seen our own create yet: tried again
		r.m.Errors.Add(1)
	}
	return ctrl.Result{}, err
}

func (r *reconciler) act(ctx context.Context, object client.Object) error {
	switch object := object.(type) {
	case *widget.Widget:
		switch r.mode {
		case "patch":
			return r.report(ctx, object)
		case "apply":
			return r.applyChildren(ctx, object)
		}
	case *unstructured.Unstructured:
		if r.mode == "patch" {
			return r.reportUnstructured(ctx, object)
		}
	}
	return nil
}

// report writes the status of a Widget, when it is not what it should be.
func (r *reconciler) report(ctx context.Context, w *widget.Widget) error {
	before := w.DeepCopy()
	w.Status = w.Report()
	if w.Status == before.Status {
		return nil
	}
	return r.patchStatus(ctx, w, before)
}

func (r *reconciler) reportUnstructured(ctx context.Context, u *unstructured.Unstructured) error {
	before := u.DeepCopy()
	replicas, _, err := unstructured.NestedInt64(u.Object, "spec", "replicas")
	if err != nil {
		return err
	}
	status := map[string]any{
		"observedGeneration": u.GetGeneration(),
		"phase":              "Ready",
		"readyReplicas":      replicas,
		"endpoint":           u.GetName() + "." + u.GetNamespace() + ".svc:8080",
	}
	if err := unstructured.SetNestedMap(u.Object, status, "status"); err != nil {
		return err
	}
	if equality.Semantic.DeepEqual(before.Object["status"], u.Object["status"]) {
		return nil
	}
	return r.patchStatus(ctx, u, before)
}

func (r *reconciler) patchStatus(ctx context.Context, object, before client.Object) error {
	if err := r.Status().Patch(ctx, object, client.MergeFrom(before)); err != nil {
		return err
	}
	r.m.Patches.Add(1)
	return nil
}
