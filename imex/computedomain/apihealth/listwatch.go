package apihealth

import (
	"context"

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

// ListWatch returns how to follow what api lists, as far as tweak's selectors take
// it. Its troubles are noted but for those that pass says are none.
func ListWatch[L runtime.Object](h *Health, what string, api Lister[L], tweak func(*metav1.ListOptions), pass func(error) bool) *cache.ListWatch {
	note := func(ctx context.Context, err error) {
		if !pass(err) {
			h.Note(ctx, what, err)
		}
	}
	return &cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
			tweak(&o)
			list, err := api.List(ctx, o)
			note(ctx, err)
			return list, err
		},
		WatchFuncWithContext: func(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
			tweak(&o)
			w, err := api.Watch(ctx, o)
			if o.SendInitialEvents == nil || err == nil || isConnection(err) { // else a server that cannot watch a list is asked for the list
				note(ctx, err)
			}
			return w, err
		},
	}
}
