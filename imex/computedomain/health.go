package computedomain

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
)

// The pauses between two log lines of one trouble.
const (
	firstTroublePause = time.Minute
	longTroublePause  = 15 * time.Minute
)

// health says what cannot be read: at once, then ever more rarely, and when it
// can be read again.
type health struct {
	log *slog.Logger
	mu  sync.Mutex
	bad map[string]*trouble // by what is not readable; that of connection is everything
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
	if errors.As(err, &request) {
		h.failed(connection, request.Err)
		return
	}
	h.works(connection)
	if err != nil {
		h.failed(what, err)
		return
	}
	h.works(what)
}

// forget drops the trouble with what nobody asks for any more.
func (h *health) forget(what string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.bad, what)
}

func (h *health) failed(what string, err error) {
	t := h.bad[what]
	if t == nil {
		t = &trouble{pause: firstTroublePause}
		h.bad[what] = t
	}
	t.err = err
	if now := time.Now(); !now.Before(t.again) {
		t.again, t.pause = now.Add(t.pause), min(2*t.pause, longTroublePause)
		h.log.Warn("not readable, trying again", "what", what, "err", err)
	}
}

func (h *health) works(what string) {
	if h.bad[what] != nil {
		delete(h.bad, what)
		h.log.Info("readable again", "what", what)
	}
}

// of returns what is wrong with what, or with the connection.
func (h *health) of(what string) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, name := range []string{connection, what} {
		if t := h.bad[name]; t != nil {
			return t.err
		}
	}
	return nil
}

// String names everything that is wrong now; empty if nothing is.
func (h *health) String() string {
	h.mu.Lock()
	defer h.mu.Unlock()
	var all []string
	for _, what := range slices.Sorted(maps.Keys(h.bad)) {
		all = append(all, fmt.Sprintf("%s: %v", what, h.bad[what].err))
	}
	return strings.Join(all, "; ")
}
