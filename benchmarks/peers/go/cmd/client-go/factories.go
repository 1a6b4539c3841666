package main

import (
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/dynamic/dynamicinformer"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/metadata/metadatainformer"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"

	"steersman.dev/benchmarks/peers/go/internal/bench"
	"steersman.dev/benchmarks/peers/go/internal/widget"
)

// factory is what client-go's three factories of shared informers, of one namespace or of all, have in common.
type factory interface {
	informer(kind bench.Kind) (cache.SharedIndexInformer, error)
	Start(stop <-chan struct{})
	Shutdown()
}

func newFactory(o bench.Options, config *rest.Config, namespace string) (factory, error) {
	switch o.Form {
	case "unstructured":
		client, err := dynamic.NewForConfig(config)
		if err != nil {
			return nil, err
		}
		return dynamicFactory{dynamicinformer.NewFilteredDynamicSharedInformerFactory(client, 0, namespace, nil), transform(o)}, nil
	case "metadata":
		client, err := metadata.NewForConfig(config)
		if err != nil {
			return nil, err
		}
		return metadataFactory{metadatainformer.NewFilteredSharedInformerFactory(client, 0, namespace, nil), transform(o)}, nil
	default:
		return newTypedFactory(o, config, namespace)
	}
}

// transform drops managedFields where the options ask for it; nil keeps objects as they come.
func transform(o bench.Options) cache.TransformFunc {
	if !o.Strip {
		return nil
	}
	return func(object any) (any, error) {
		if accessor, err := meta.Accessor(object); err == nil {
			accessor.SetManagedFields(nil)
		}
		return object, nil
	}
}

type dynamicFactory struct {
	dynamicinformer.DynamicSharedInformerFactory
	transform cache.TransformFunc
}

func (f dynamicFactory) informer(kind bench.Kind) (cache.SharedIndexInformer, error) {
	informer := f.ForResource(kind.Resource).Informer()
	return informer, informer.SetTransform(f.transform)
}

type metadataFactory struct {
	metadatainformer.SharedInformerFactory
	transform cache.TransformFunc
}

func (f metadataFactory) informer(kind bench.Kind) (cache.SharedIndexInformer, error) {
	informer := f.ForResource(kind.Resource).Informer()
	return informer, informer.SetTransform(f.transform)
}

// typedFactory makes the informers of built-in kinds, and Widgets' as client-go's generator would.
type typedFactory struct {
	informers.SharedInformerFactory
	widgets *widgetInformers
}

func newTypedFactory(o bench.Options, config *rest.Config, namespace string) (factory, error) {
	widgets, err := newWidgetInformers(config, namespace, transform(o))
	if err != nil {
		return nil, err
	}
	config = rest.CopyConfig(config)
	if o.Wire == "protobuf" {
		config.ContentType = runtime.ContentTypeProtobuf
		config.AcceptContentTypes = runtime.ContentTypeProtobuf + "," + runtime.ContentTypeJSON
	}
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, err
	}
	built := informers.NewSharedInformerFactoryWithOptions(client, 0, informers.WithNamespace(namespace), informers.WithTransform(transform(o)))
	return typedFactory{built, widgets}, nil
}

func (f typedFactory) informer(kind bench.Kind) (cache.SharedIndexInformer, error) {
	if kind.GVK.GroupVersion() == widget.GroupVersion {
		return f.widgets.informer()
	}
	generic, err := f.ForResource(kind.Resource)
	if err != nil {
		return nil, err
	}
	return generic.Informer(), nil
}

func (f typedFactory) Start(stop <-chan struct{}) {
	f.widgets.start(stop)
	f.SharedInformerFactory.Start(stop)
}

func (f typedFactory) Shutdown() {
	f.SharedInformerFactory.Shutdown()
	f.widgets.wait()
}
