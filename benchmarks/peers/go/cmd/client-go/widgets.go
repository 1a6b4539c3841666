package main

import (
	"context"
	"sync"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/gentype"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"

	"steersman.dev/benchmarks/peers/go/internal/bench"
	"steersman.dev/benchmarks/peers/go/internal/widget"
)

// widgetInformers is the part of a generated factory of shared informers that Widgets need. Custom resources are
// read as JSON, whatever built-in kinds are read as.
type widgetInformers struct {
	client    *gentype.ClientWithList[*widget.Widget, *widget.WidgetList]
	transform cache.TransformFunc
	made      cache.SharedIndexInformer
	running   sync.WaitGroup
}

func newWidgetInformers(config *rest.Config, namespace string, transform cache.TransformFunc) (*widgetInformers, error) {
	scheme, err := bench.Scheme()
	if err != nil {
		return nil, err
	}
	codecs := serializer.NewCodecFactory(scheme)
	config = rest.CopyConfig(config)
	config.ContentType = runtime.ContentTypeJSON
	config.GroupVersion = &widget.GroupVersion
	config.APIPath = "/apis"
	config.NegotiatedSerializer = rest.CodecFactoryForGeneratedClient(scheme, codecs).WithoutConversion()
	reach, err := rest.RESTClientFor(config)
	if err != nil {
		return nil, err
	}
	client := gentype.NewClientWithList[*widget.Widget, *widget.WidgetList](
		"widgets", reach, runtime.NewParameterCodec(scheme), namespace,
		func() *widget.Widget { return &widget.Widget{} },
		func() *widget.WidgetList { return &widget.WidgetList{} },
	)
	return &widgetInformers{client: client, transform: transform}, nil
}

func (w *widgetInformers) informer() (cache.SharedIndexInformer, error) {
	if w.made == nil {
		reads := cache.ToListWatcherWithWatchListSemantics(&cache.ListWatch{
			ListWithContextFunc: func(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
				return w.client.List(ctx, options)
			},
			WatchFuncWithContext: func(ctx context.Context, options metav1.ListOptions) (watch.Interface, error) {
				return w.client.Watch(ctx, options)
			},
		}, w.client)
		w.made = cache.NewSharedIndexInformerWithOptions(reads, &widget.Widget{}, cache.SharedIndexInformerOptions{
			Indexers: cache.Indexers{cache.NamespaceIndex: cache.MetaNamespaceIndexFunc},
		})
	}
	return w.made, w.made.SetTransform(w.transform)
}

func (w *widgetInformers) start(stop <-chan struct{}) {
	if w.made != nil {
		w.running.Go(func() { w.made.Run(stop) })
	}
}

func (w *widgetInformers) wait() { w.running.Wait() }
