// A client of the cluster as Go programs are: client-go's typed clients, informers and leader election, and a
// controller-runtime manager, each with JSON and with protobuf. It prints one line for each thing that worked.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/tools/leaderelection"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
	"k8s.io/client-go/util/retry"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	metrics "sigs.k8s.io/controller-runtime/pkg/metrics/server"
)

const jsonType, protobufType = "application/json", "application/vnd.kubernetes.protobuf"

func main() {
	config, err := clientcmd.BuildConfigFromFlags("", os.Getenv("KUBECONFIG"))
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(2)
	}
	config.QPS, config.Burst = 500, 500
	ctrl.SetLogger(logr.Discard())
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	failed := false
	for _, step := range []struct {
		name string
		run  func(context.Context, *rest.Config) error
	}{{"objects", objects}, {"informer", informer}, {"election", election}, {"manager", reconciling}} {
		for _, kind := range []string{jsonType, protobufType} {
			wire := rest.CopyConfig(config)
			wire.ContentType = kind
			wire.AcceptContentTypes = kind
			if err := step.run(ctx, wire); err != nil {
				failed = true
				fmt.Printf("%s %s: %v\n", step.name, kind, err)
				continue
			}
			fmt.Printf("%s %s: ok\n", step.name, kind)
		}
	}
	if failed {
		os.Exit(1)
	}
}

// namespace makes a fresh one.
func namespace(ctx context.Context, clients kubernetes.Interface) (string, error) {
	made, err := clients.CoreV1().Namespaces().Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "go-"}}, metav1.CreateOptions{})
	if err != nil {
		return "", err
	}
	return made.Name, nil
}

// objects creates, reads, updates, patches, and deletes, and knows errors by their type.
func objects(ctx context.Context, config *rest.Config) error {
	clients := kubernetes.NewForConfigOrDie(config)
	name, err := namespace(ctx, clients)
	if err != nil {
		return err
	}
	services := clients.CoreV1().Services(name)
	service := &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Name: "web"},
		Spec:       corev1.ServiceSpec{Ports: []corev1.ServicePort{{Port: 80, TargetPort: intstr.FromString("http")}}},
	}
	made, err := services.Create(ctx, service, metav1.CreateOptions{})
	if err != nil {
		return fmt.Errorf("create: %w", err)
	}
	if made.Spec.Ports[0].TargetPort.StrVal != "http" || made.Spec.ClusterIP == "" || made.CreationTimestamp.IsZero() {
		return fmt.Errorf("create answered %v", made)
	}
	if _, err = services.Create(ctx, service, metav1.CreateOptions{}); !apierrors.IsAlreadyExists(err) {
		return fmt.Errorf("second create: %v", err)
	}
	patch := []byte(`{"metadata":{"labels":{"a":"b"}}}`)
	if _, err = services.Patch(ctx, "web", types.StrategicMergePatchType, patch, metav1.PatchOptions{}); err != nil {
		return fmt.Errorf("patch: %w", err)
	}
	made.Annotations = map[string]string{"stale": "yes"}
	if _, err = services.Update(ctx, made, metav1.UpdateOptions{}); !apierrors.IsConflict(err) {
		return fmt.Errorf("stale update: %v", err)
	}
	err = retry.RetryOnConflict(retry.DefaultRetry, func() error {
		live, err := services.Get(ctx, "web", metav1.GetOptions{})
		if err != nil {
			return err
		}
		live.Annotations = map[string]string{"fresh": "yes"}
		_, err = services.Update(ctx, live, metav1.UpdateOptions{})
		return err
	})
	if err != nil {
		return fmt.Errorf("update: %w", err)
	}
	listed, err := services.List(ctx, metav1.ListOptions{LabelSelector: "a=b"})
	if err != nil || len(listed.Items) != 1 || listed.Items[0].Annotations["fresh"] != "yes" {
		return fmt.Errorf("list: %v %v", listed, err)
	}
	if err = services.Delete(ctx, "web", metav1.DeleteOptions{}); err != nil {
		return fmt.Errorf("delete: %w", err)
	}
	if _, err = services.Get(ctx, "web", metav1.GetOptions{}); !apierrors.IsNotFound(err) {
		return fmt.Errorf("get of a deleted one: %v", err)
	}
	return nil
}

// informer sees what was there, what comes, and what goes.
func informer(ctx context.Context, config *rest.Config) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	clients := kubernetes.NewForConfigOrDie(config)
	name, err := namespace(ctx, clients)
	if err != nil {
		return err
	}
	maps := clients.CoreV1().ConfigMaps(name)
	if _, err := maps.Create(ctx, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "early"}}, metav1.CreateOptions{}); err != nil {
		return err
	}
	seen := make(chan string, 16)
	factory := informers.NewSharedInformerFactoryWithOptions(clients, 0, informers.WithNamespace(name))
	watched := factory.Core().V1().ConfigMaps().Informer()
	_, err = watched.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc: func(object any) { seen <- "added " + object.(*corev1.ConfigMap).Name },
		DeleteFunc: func(object any) {
			if gone, ok := object.(*corev1.ConfigMap); ok {
				seen <- "deleted " + gone.Name
			}
		},
	})
	if err != nil {
		return err
	}
	factory.Start(ctx.Done())
	if !cache.WaitForCacheSync(ctx.Done(), watched.HasSynced) {
		return errors.New("never synced")
	}
	if err := await(ctx, seen, "added early"); err != nil {
		return err
	}
	if _, err := maps.Create(ctx, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "late"}}, metav1.CreateOptions{}); err != nil {
		return err
	}
	if err := await(ctx, seen, "added late"); err != nil {
		return err
	}
	if err := maps.Delete(ctx, "early", metav1.DeleteOptions{}); err != nil {
		return err
	}
	return await(ctx, seen, "deleted early")
}

func await(ctx context.Context, seen <-chan string, wanted string) error {
	for {
		select {
		case got := <-seen:
			if got == wanted {
				return nil
			}
		case <-ctx.Done():
			return fmt.Errorf("%s: %w", wanted, ctx.Err())
		}
	}
}

// election: the second candidate leads only when the first has released the lease.
func election(ctx context.Context, config *rest.Config) error {
	clients := kubernetes.NewForConfigOrDie(config)
	name, err := namespace(ctx, clients)
	if err != nil {
		return err
	}
	leading := make(chan string, 2)
	stand := func(ctx context.Context, who string) {
		lock := &resourcelock.LeaseLock{
			LeaseMeta:  metav1.ObjectMeta{Namespace: name, Name: "leader"},
			Client:     clients.CoordinationV1(),
			LockConfig: resourcelock.ResourceLockConfig{Identity: who},
		}
		leaderelection.RunOrDie(ctx, leaderelection.LeaderElectionConfig{
			Lock: lock, ReleaseOnCancel: true,
			LeaseDuration: 5 * time.Second, RenewDeadline: 3 * time.Second, RetryPeriod: 100 * time.Millisecond,
			Callbacks: leaderelection.LeaderCallbacks{
				OnStartedLeading: func(context.Context) { leading <- who },
				OnStoppedLeading: func() {},
			},
		})
	}
	first, release := context.WithCancel(ctx)
	defer release()
	go stand(first, "first")
	if err := await(ctx, leading, "first"); err != nil {
		return err
	}
	second, stop := context.WithCancel(ctx)
	defer stop()
	go stand(second, "second")
	release()
	return await(ctx, leading, "second")
}

type labeller struct {
	client client.Client
	done   chan<- string
}

func (l *labeller) Reconcile(ctx context.Context, request ctrl.Request) (ctrl.Result, error) {
	var object corev1.ConfigMap
	if err := l.client.Get(ctx, request.NamespacedName, &object); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	if object.Labels["seen"] == "yes" {
		l.done <- object.Namespace + "/" + object.Name
		return ctrl.Result{}, nil
	}
	before := client.MergeFrom(object.DeepCopy())
	object.Labels = map[string]string{"seen": "yes"}
	return ctrl.Result{}, l.client.Patch(ctx, &object, before)
}

// reconciling runs a controller-runtime manager until its controller has seen its own write come back.
func reconciling(ctx context.Context, config *rest.Config) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	name, err := namespace(ctx, kubernetes.NewForConfigOrDie(config))
	if err != nil {
		return err
	}
	skip := true
	options := manager.Options{Metrics: metrics.Options{BindAddress: "0"}}
	options.Controller.SkipNameValidation = &skip
	running, err := manager.New(config, options)
	if err != nil {
		return err
	}
	done := make(chan string, 256)
	err = ctrl.NewControllerManagedBy(running).For(&corev1.ConfigMap{}).Complete(&labeller{running.GetClient(), done})
	if err != nil {
		return err
	}
	ended := make(chan error, 1)
	go func() { ended <- running.Start(ctx) }()
	object := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: name, Name: "work"}}
	if err := running.GetClient().Create(ctx, object); err != nil {
		return err
	}
	if err := await(ctx, done, name+"/work"); err != nil {
		return err
	}
	cancel()
	return <-ended
}
