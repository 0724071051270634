// Package apihealth says in the log what of the API server cannot be read, for
// client-go itself keeps quiet while a connection is refused.
package apihealth

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
	firstPause   = time.Minute
	longestPause = 15 * time.Minute
)

// Health says what is wrong with the API server: at once, then ever more rarely,
// and when it works again.
type Health struct {
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

// New returns the health of an API server of which nothing is wrong as yet.
func New(log *slog.Logger) *Health { return &Health{log: log, bad: map[string]*trouble{}} }

// Note takes the outcome of one request for what.
func (h *Health) Note(ctx context.Context, what string, err error) {
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

// Ended takes the end of a watch, which is tried again.
func (h *Health) Ended(what string, err error) {
	h.log.Debug("watch ended, trying again", "of", what, "err", err)
}

// isConnection reports whether a request has not come to the API server.
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

// Forget drops the trouble with what nobody asks for any more.
func (h *Health) Forget(what string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.bad, what)
}

func (h *Health) failed(what string, err error, message string, args ...any) {
	t := h.bad[what]
	if t == nil {
		t = &trouble{pause: firstPause}
		h.bad[what] = t
	}
	t.err = err
	if now := time.Now(); !now.Before(t.again) {
		t.again, t.pause = now.Add(t.pause), min(2*t.pause, longestPause)
		h.log.Warn(message, append(args, "err", err)...)
	}
}

func (h *Health) works(what, message string) {
	if h.bad[what] != nil {
		delete(h.bad, what)
		h.log.Info(message, "what", what)
	}
}

// Of returns what is wrong with what, or with the connection.
func (h *Health) Of(what string) error {
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
func (h *Health) String() string {
	h.mu.Lock()
	defer h.mu.Unlock()
	var all []string
	for _, what := range slices.Sorted(maps.Keys(h.bad)) {
		all = append(all, fmt.Sprintf("%s: %v", what, h.bad[what].err))
	}
	return strings.Join(all, "; ")
}
