// The controller-runtime peer of the benchmarks: an informer or a controller on one kind, typed, over JSON,
// written as its users write them and told nothing about the stub server it talks to.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/clientcmd"
	ctrl "sigs.k8s.io/controller-runtime"
	crcache "sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/metrics/server"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
)

type options struct {
	kubeconfig, kind, mode string
	workers                int
	strip, protobuf        bool
}

func main() {
	var o options
	flag.StringVar(&o.kubeconfig, "bench-kubeconfig", "", "kubeconfig of the stub server")
	flag.StringVar(&o.kind, "kind", "widgets", "widgets, pods or configmaps")
	flag.StringVar(&o.mode, "mode", "informer", "informer, noop (a reconcile that reads) or patch (and writes status)")
	flag.IntVar(&o.workers, "workers", 16, "concurrent reconciles")
	flag.BoolVar(&o.strip, "strip-managed-fields", false, "use the cache transform that drops managedFields")
	flag.BoolVar(&o.protobuf, "protobuf", false, "controller-runtime's default for built-in kinds")
	flag.Parse()
	if err := run(o); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(o options) error {
	log.SetLogger(logr.Discard())
	config, err := clientcmd.BuildConfigFromFlags("", o.kubeconfig)
	if err != nil {
		return err
	}
	config.QPS = -1 // API priority and fairness has replaced client-side limits
	if !o.protobuf {
		config.ContentType = runtime.ContentTypeJSON
	}
	scheme := runtime.NewScheme()
	if err := corev1.AddToScheme(scheme); err != nil {
		return err
	}
	addToScheme(scheme)
	cacheOptions := crcache.Options{}
	if o.strip {
		cacheOptions.DefaultTransform = crcache.TransformStripManagedFields()
	}
	mgr, err := ctrl.NewManager(config, ctrl.Options{
		Scheme: scheme, Cache: cacheOptions, Metrics: server.Options{BindAddress: "0"},
	})
	if err != nil {
		return err
	}

	m := newMeter()
	kind := map[string]client.Object{"widgets": &Widget{}, "pods": &corev1.Pod{}, "configmaps": &corev1.ConfigMap{}}[o.kind]
	if kind == nil {
		return fmt.Errorf("unknown kind %q", o.kind)
	}
	ctx := ctrl.SetupSignalHandler()
	if o.mode != "informer" {
		builder := ctrl.NewControllerManagedBy(mgr).For(kind).
			WithEventFilter(predicate.And(predicate.GenerationChangedPredicate{}, counting(m))).
			WithOptions(controller.Options{MaxConcurrentReconciles: o.workers})
		if err := builder.Complete(&reconciler{Client: mgr.GetClient(), m: m, patches: o.mode == "patch", kind: kind}); err != nil {
			return err
		}
	}
	if err := mgr.Add(manager.RunnableFunc(func(ctx context.Context) error { return o.observe(ctx, mgr, kind, m) })); err != nil {
		return err
	}
	m.mark("starting")
	go m.obey()
	return mgr.Start(ctx)
}

// observe counts in the informer that the controller shares, and says when it has synced.
func (o options) observe(ctx context.Context, mgr ctrl.Manager, kind client.Object, m *meter) error {
	informer, err := mgr.GetCache().GetInformer(ctx, kind)
	if err != nil {
		return err
	}
	synced := informer.HasSynced
	if o.mode == "informer" {
		registration, err := informer.AddEventHandler(cache.ResourceEventHandlerDetailedFuncs{
			AddFunc:    func(any, bool) { m.seen.Add(1) },
			UpdateFunc: func(_, _ any) { m.events.Add(1) },
		})
		if err != nil {
			return err
		}
		synced = registration.HasSynced
	}
	if !cache.WaitForCacheSync(ctx.Done(), synced) {
		return ctx.Err()
	}
	m.mark("synced")
	<-ctx.Done()
	return nil
}

func counting(m *meter) predicate.Predicate {
	return predicate.Funcs{
		CreateFunc: func(event.CreateEvent) bool { m.seen.Add(1); return true },
		UpdateFunc: func(event.UpdateEvent) bool { m.events.Add(1); return true },
	}
}

type reconciler struct {
	client.Client
	m       *meter
	patches bool
	kind    client.Object
}

// Reconcile reads the object and, in patch mode, reports what it saw in the status.
func (r *reconciler) Reconcile(ctx context.Context, request ctrl.Request) (ctrl.Result, error) {
	if r.m.reconciles.Add(1) == 1 {
		defer r.m.mark("first-reconcile")
	}
	object := r.kind.DeepCopyObject().(client.Object)
	if err := r.Get(ctx, request.NamespacedName, object); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	r.m.stamped(object.GetAnnotations())
	widget, isWidget := object.(*Widget)
	if !r.patches || !isWidget {
		return ctrl.Result{}, nil
	}
	before := widget.DeepCopy()
	widget.Status = WidgetStatus{
		ObservedGeneration: widget.Generation,
		Phase:              "Ready",
		ReadyReplicas:      widget.Spec.Replicas,
		Endpoint:           widget.Name + "." + widget.Namespace + ".svc:8080",
	}
	if widget.Status == before.Status {
		return ctrl.Result{}, nil
	}
	if err := r.Status().Patch(ctx, widget, client.MergeFrom(before)); err != nil {
		r.m.errors.Add(1)
		return ctrl.Result{}, err
	}
	r.m.patches.Add(1)
	return ctrl.Result{}, nil
}
