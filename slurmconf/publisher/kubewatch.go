package publisher

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
)

// newInformer returns an informer of what the API lists, whose troubles are
// told to health: client-go itself keeps quiet while a connection is refused.
func newInformer[L runtime.Object](client kubernetes.Interface, health *health, what string, of runtime.Object, api interface {
	List(context.Context, metav1.ListOptions) (L, error)
	Watch(context.Context, metav1.ListOptions) (watch.Interface, error)
}, tweak func(*metav1.ListOptions)) cache.SharedIndexInformer {
	lw := &cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
			tweak(&o)
			list, err := api.List(ctx, o)
			health.note(ctx, what, err)
			return list, err
		},
		WatchFuncWithContext: func(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
			tweak(&o)
			w, err := api.Watch(ctx, o)
			if o.SendInitialEvents == nil || err == nil || isConnection(err) { // else a server that cannot watch a list is asked for the list
				health.note(ctx, what, err)
			}
			return w, err
		},
	}
	informer := cache.NewSharedIndexInformer(cache.ToListWatcherWithWatchListSemantics(lw, client), of, 0, cache.Indexers{cache.NamespaceIndex: cache.MetaNamespaceIndexFunc})
	_ = informer.SetWatchErrorHandlerWithContext(func(_ context.Context, _ *cache.Reflector, err error) { // fails only on a started informer
		health.log.Debug("watch ended, trying again", "of", what, "err", err)
	})
	return informer
}

// The pauses between two log lines of one trouble.
const (
	firstTroublePause = time.Minute
	longTroublePause  = 15 * time.Minute
)

// health says what is wrong with the API server: at once, then ever more rarely,
// and when it works again.
type health struct {
	log *slog.Logger
	mu  sync.Mutex
	bad map[string]*trouble // by what cannot be read; that of connection is everything
}

type trouble struct {
	err   error
	again time.Time // when it may be logged again
	pause time.Duration
}

const connection = "connection"

func newHealth(log *slog.Logger) *health { return &health{log: log, bad: map[string]*trouble{}} }

// note takes the outcome of one request for what.
func (h *health) note(ctx context.Context, what string, err error) {
	if ctx.Err() != nil || apierrors.IsResourceExpired(err) || apierrors.IsGone(err) { // the last two only ask for a new list
		return
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	var request *url.Error
	switch {
	case err == nil:
		h.works(connection, "the API server answers again")
		h.works(what, "readable again")
	case errors.As(err, &request):
		h.failed(connection, request.Err, "the API server cannot be reached, trying again", "server", hostOf(request.URL))
	default:
		h.works(connection, "the API server answers again")
		h.failed(what, err, "not readable, trying again", "what", what)
	}
}

func isConnection(err error) bool {
	var request *url.Error
	return errors.As(err, &request)
}

func hostOf(address string) string {
	u, err := url.Parse(address)
	if err != nil {
		return address
	}
	return u.Host
}

func (h *health) failed(what string, err error, message string, args ...any) {
	t := h.bad[what]
	if t == nil {
		t = &trouble{pause: firstTroublePause}
		h.bad[what] = t
	}
	t.err = err
	if now := time.Now(); !now.Before(t.again) {
		t.again, t.pause = now.Add(t.pause), min(2*t.pause, longTroublePause)
		h.log.Warn(message, append(args, "err", err)...)
	}
}

func (h *health) works(what, message string) {
	if h.bad[what] != nil {
		delete(h.bad, what)
		h.log.Info(message, "what", what)
	}
}

// why ends a sentence with what is wrong now, if anything is.
func (h *health) why() string {
	h.mu.Lock()
	defer h.mu.Unlock()
	var all []string
	for _, what := range slices.Sorted(maps.Keys(h.bad)) {
		all = append(all, fmt.Sprintf("%s: %v", what, h.bad[what].err))
	}
	if len(all) == 0 {
		return ""
	}
	return ": " + strings.Join(all, "; ")
}
