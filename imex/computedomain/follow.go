package computedomain

import (
	"context"
	"errors"
	"net/url"
	"time"

	"github.com/go-logr/logr"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"
)

// followed is one kind of objects, or some of them, of which a source keeps
// facts.
type followed struct {
	what  string // for people
	of    runtime.Object
	lw    *cache.ListWatch
	store cache.ReflectorStore
}

// lister is a typed client's way to one kind of objects.
type lister[L runtime.Object] interface {
	List(context.Context, metav1.ListOptions) (L, error)
	Watch(context.Context, metav1.ListOptions) (watch.Interface, error)
}

// newFollowed returns how to follow what api lists, as far as tweak's selectors
// take it. Troubles are told to health.
func newFollowed[L runtime.Object](what string, of runtime.Object, api lister[L], tweak func(*metav1.ListOptions), store cache.ReflectorStore, health *health) followed {
	note := func(ctx context.Context, err error) {
		if !apierrors.IsNotFound(err) { // follow tells when it stays so
			health.note(ctx, what, err)
		}
	}
	return followed{what: what, of: of, store: store, lw: &cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
			tweak(&o)
			list, err := api.List(ctx, o)
			note(ctx, err)
			return list, err
		},
		WatchFuncWithContext: func(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
			tweak(&o)
			w, err := api.Watch(ctx, o)
			var request *url.Error
			if o.SendInitialEvents == nil || err == nil || errors.As(err, &request) { // else a server that cannot watch a list is asked for the list
				note(ctx, err)
			}
			return w, err
		},
	}}
}

// The pauses before the API server is asked again: after an error, and while it
// does not know the API.
const (
	firstPause  = 800 * time.Millisecond
	errorPause  = 30 * time.Second
	absentPause = 10 * time.Minute
	// longAttempt is how long a watch lasts that ends for no trouble's sake.
	longAttempt = time.Minute
	// absentTries is how often a new API may be missing before that is trouble: a
	// definition is there a little earlier than what it defines.
	absentTries = 3
)

// follow keeps the store as the API server tells, until ctx ends.
func (f *followed) follow(ctx context.Context, health *health) {
	ctx = klog.NewContext(ctx, logr.Discard()) // client-go would tell of each try
	reflector := cache.NewReflectorWithOptions(f.lw, f.of, f.store, cache.ReflectorOptions{Name: f.what})
	pause, absent := firstPause, 0
	for {
		started := time.Now()
		err := reflector.ListAndWatchWithContext(ctx)
		if time.Since(started) > longAttempt {
			pause, absent = firstPause, 0
		}
		longest := errorPause
		if apierrors.IsNotFound(err) {
			longest = absentPause
			if absent++; absent >= absentTries {
				health.note(ctx, f.what, err)
			}
		}
		select {
		case <-ctx.Done():
			health.forget(f.what)
			return
		case <-time.After(wait.Jitter(min(pause, longest), 1)):
		}
		pause = min(2*pause, longest)
	}
}
