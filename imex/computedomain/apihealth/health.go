// Package apihealth says in the log what of the API server cannot be read, because
// client-go keeps quiet while a connection is refused.
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

// Health knows what cannot be read now. It logs a trouble once when it begins and once
// when it is over.
type Health struct {
	log      *slog.Logger
	mu       sync.Mutex
	troubles map[string]error     // by what cannot be read
	since    map[string]time.Time // when each began
}

// connection is the trouble of an API server that cannot be reached at all.
const connection = "connection"

// New returns a Health without troubles.
func New(log *slog.Logger) *Health {
	return &Health{log: log, troubles: map[string]error{}, since: map[string]time.Time{}}
}

// Note takes the outcome of one request for what. An API that the server does not know
// is a trouble that is not logged, because it may be about to come.
func (h *Health) Note(ctx context.Context, what string, err error) {
	if ctx.Err() != nil || apierrors.IsResourceExpired(err) || apierrors.IsGone(err) { // the last two only ask for a new list
		return
	}
	if status := (*apierrors.StatusError)(nil); errors.As(err, &status) {
		err = status // without client-go's words before it
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	var request *url.Error
	if errors.As(err, &request) {
		h.begin(ctx, connection, request.Err, slog.LevelWarn, "the API server cannot be reached, trying again", "server", hostOf(request.URL))
		return
	}
	h.end(connection, "the API server answers again")
	switch {
	case err == nil:
		h.end(what, "readable again")
	case apierrors.IsNotFound(err):
		h.begin(ctx, what, err, slog.LevelDebug, "the API server does not know it", "what", what)
	default:
		h.begin(ctx, what, err, slog.LevelWarn, "not readable, trying again", "what", what)
	}
}

// begin logs a trouble that is new.
func (h *Health) begin(ctx context.Context, what string, err error, level slog.Level, message string, args ...any) {
	old := h.troubles[what]
	h.troubles[what] = err
	if old == nil {
		h.since[what] = time.Now()
	}
	if old == nil || apierrors.IsNotFound(old) != apierrors.IsNotFound(err) {
		h.log.Log(ctx, level, message, append(args, "err", err)...)
	}
}

// end logs that a trouble is over, if there was one that was logged.
func (h *Health) end(what, message string) {
	err := h.troubles[what]
	h.drop(what)
	if err != nil && !apierrors.IsNotFound(err) {
		h.log.Info(message, "what", what)
	}
}

func hostOf(address string) string {
	u, err := url.Parse(address)
	if err != nil {
		return address
	}
	return u.Host
}

// Forget drops the trouble with what is no longer asked for.
func (h *Health) Forget(what string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.drop(what)
}

func (h *Health) drop(what string) {
	delete(h.troubles, what)
	delete(h.since, what)
}

// Lasting returns a trouble with any of these, or with the connection, that has lasted so
// long: what was read before may be wrong by now.
func (h *Health) Lasting(long time.Duration, whats ...string) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, what := range append(whats, connection) {
		if err := h.troubles[what]; err != nil && time.Since(h.since[what]) >= long {
			return fmt.Errorf("%s: not read since %s: %w", what, h.since[what].UTC().Format(time.RFC3339), err)
		}
	}
	return nil
}

// Of returns what is wrong with what, or with the connection.
func (h *Health) Of(what string) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if err := h.troubles[connection]; err != nil {
		return err
	}
	return h.troubles[what]
}

// String names everything that is wrong now; empty if nothing is.
func (h *Health) String() string {
	h.mu.Lock()
	defer h.mu.Unlock()
	var all []string
	for _, what := range slices.Sorted(maps.Keys(h.troubles)) {
		all = append(all, fmt.Sprintf("%s: %v", what, h.troubles[what]))
	}
	return strings.Join(all, "; ")
}
