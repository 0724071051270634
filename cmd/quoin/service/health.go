package service

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/quoin-hpc/quoin/topology"
)

const (
	// askEvery is the time between two questions whether the program is ready, and askFirst
	// the time while it is not. askTime is the longest that a question takes.
	askEvery, askFirst, askTime = 5 * time.Second, time.Second, 4 * time.Second
	// answerAge is how old an answer may be.
	answerAge = 30 * time.Second
	// stuckAfter is far longer than the longest pass of a healthy loop: 10,000 annotations
	// take two minutes.
	stuckAfter = 10 * time.Minute
)

// nothing drops what net/http says of clients.
var nothing = log.New(io.Discard, "", 0)

// Loop is a loop of the program.
type Loop struct {
	Name string
	// Busy returns since when the loop has been at its present work, or nil if it waits for
	// work.
	Busy func() *time.Time
}

// state is what the probes are told. A probe asks nobody, so that many of them cost nothing.
type state struct {
	options *Options
	// asks is when the question that has no answer yet was asked, or nil.
	asks     atomic.Pointer[time.Time]
	mu       sync.Mutex
	err      error
	answered time.Time // the last answer
}

// run asks whether the program is ready, until ctx ends.
func (s *state) run(ctx context.Context) error {
	for {
		pause := askEvery
		if err := s.ask(ctx); err != nil {
			pause = askFirst
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(pause):
		}
	}
}

func (s *state) ask(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, askTime)
	defer cancel()
	now := time.Now()
	s.asks.Store(&now)
	err := s.options.Ready(ctx)
	s.asks.Store(nil)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.err, s.answered = err, time.Now()
	return err
}

// ready returns what was found last.
func (s *state) ready() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.answered.IsZero():
		return errors.New("not known yet")
	case time.Since(s.answered) > answerAge:
		return fmt.Errorf("not known since %s", s.answered.UTC().Format(time.RFC3339))
	}
	return s.err
}

// alive says which loop is stuck.
func (s *state) alive() error {
	for _, l := range slices.Concat(s.options.Loops, []Loop{{"the question whether it is ready", s.asks.Load}}) {
		if since := l.Busy(); since != nil && time.Since(*since) > stuckAfter {
			return fmt.Errorf("stuck: %s has been at the same work since %s", l.Name, since.UTC().Format(time.RFC3339))
		}
	}
	return nil
}

// handler answers /healthz and /readyz.
func (s *state) handler() http.Handler {
	mux := http.NewServeMux()
	for path, find := range map[string]func() error{"/healthz": s.alive, "/readyz": s.ready} {
		mux.HandleFunc("GET "+path, func(w http.ResponseWriter, _ *http.Request) {
			if err := find(); err != nil {
				http.Error(w, topology.Cut(err.Error(), topology.MaxMessage), http.StatusServiceUnavailable)
				return
			}
			fmt.Fprintln(w, "ok")
		})
	}
	return mux
}
