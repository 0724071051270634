package computedomain

import (
	"context"
	"time"

	"github.com/go-logr/logr"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"

	"github.com/quoin-hpc/quoin/imex/computedomain/apihealth"
)

// followed is one kind of objects, or some of them, of which a source keeps
// facts.
type followed struct {
	what  string // for people
	of    runtime.Object
	lw    *cache.ListWatch
	store cache.ReflectorStore
}

// newFollowed returns how to follow what api lists, as far as tweak's selectors
// take it. Troubles are told to health; follow tells when an API stays missing.
func newFollowed[L runtime.Object](what string, of runtime.Object, api apihealth.Lister[L], tweak func(*metav1.ListOptions), store cache.ReflectorStore, health *apihealth.Health) followed {
	return followed{what: what, of: of, store: store, lw: apihealth.ListWatch(health, what, api, tweak, apierrors.IsNotFound)}
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
func (f *followed) follow(ctx context.Context, health *apihealth.Health) {
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
				health.Note(ctx, f.what, err)
			}
		}
		select {
		case <-ctx.Done():
			health.Forget(f.what)
			return
		case <-time.After(wait.Jitter(min(pause, longest), 1)):
		}
		pause = min(2*pause, longest)
	}
}
