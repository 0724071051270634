package apihealth

import (
	"context"
	"errors"
	"net/url"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"
)

// Lister is a typed client's way to one kind of objects.
type Lister[L runtime.Object] interface {
	List(context.Context, metav1.ListOptions) (L, error)
	Watch(context.Context, metav1.ListOptions) (watch.Interface, error)
}

// NewInformer returns an informer of what api lists, limited by the selectors that
// tweak sets. what names the informer in h.
func NewInformer[L runtime.Object](h *Health, what string, of runtime.Object, api Lister[L], tweak func(*metav1.ListOptions)) cache.SharedIndexInformer {
	lw := &cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
			tweak(&o)
			return api.List(ctx, o)
		},
		WatchFuncWithContext: func(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
			tweak(&o)
			w, err := api.Watch(ctx, o)
			// client-go hands a refused connection to no handler. Other errors come to the
			// handler below once a list has failed too.
			if request := (*url.Error)(nil); err == nil || errors.As(err, &request) {
				h.Note(ctx, what, err)
			}
			return w, err
		},
	}
	informer := cache.NewSharedIndexInformer(lw, of, 0, cache.Indexers{cache.NamespaceIndex: cache.MetaNamespaceIndexFunc})
	_ = informer.SetWatchErrorHandlerWithContext(func(ctx context.Context, _ *cache.Reflector, err error) { // fails only on a started informer
		h.Note(ctx, what, err)
	})
	return informer
}
