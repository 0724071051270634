package service

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"net/http"
	"sync"
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
	// Busy returns since when the loop has been at its present work, or zero if it waits for
	// work.
	Busy func() time.Time
}

// state is what the probes are told. A probe asks nobody, so that many of them cost nothing.
type state struct {
	options *Options
	mu      sync.Mutex
	err     error
	// answered is the time of the last answer. asks is when the question that has no answer
	// yet was asked, or zero.
	answered, asks time.Time
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
	s.mu.Lock()
	s.asks = time.Now()
	s.mu.Unlock()
	err := s.options.Ready(ctx)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.err, s.answered, s.asks = err, time.Now(), time.Time{}
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
	for _, l := range append(s.options.Loops, Loop{"the question whether it is ready", s.busy}) {
		if since := l.Busy(); !since.IsZero() && time.Since(since) > stuckAfter {
			return fmt.Errorf("stuck: %s has been at the same work since %s", l.Name, since.UTC().Format(time.RFC3339))
		}
	}
	return nil
}

// busy returns since when a question has had no answer.
func (s *state) busy() time.Time {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.asks
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
