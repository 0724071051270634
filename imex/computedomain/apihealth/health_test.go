package apihealth

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net/url"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

func TestHealth(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log strings.Builder
		h := New(slog.New(slog.NewTextHandler(&log, nil)))
		refused := &url.Error{Op: "Get", URL: "https://api:6443/x", Err: errors.New("connection refused")}
		for range 3600 {
			h.Note(t.Context(), "claims", refused)
			h.Note(t.Context(), "nodes", refused)
			time.Sleep(time.Second)
		}
		if n := strings.Count(log.String(), "cannot be reached"); n != 1 || !strings.Contains(log.String(), "server=api:6443") {
			t.Errorf("%d lines in an hour:\n%s", n, log.String())
		}
		if err := h.Of("claims"); err == nil || h.String() != "connection: connection refused" {
			t.Errorf("trouble of claims %v, all %q", err, h.String())
		}
		forbidden := apierrors.NewForbidden(schema.GroupResource{Resource: "resourceclaims"}, "", nil)
		h.Note(t.Context(), "claims", forbidden)
		if err := h.Of("nodes"); err != nil || !apierrors.IsForbidden(h.Of("claims")) {
			t.Errorf("trouble of nodes %v, of claims %v", err, h.Of("claims"))
		}
		h.Note(t.Context(), "claims", apierrors.NewResourceExpired("too old"))
		if h.Of("claims") == nil {
			t.Error("a list that is too old has ended a trouble")
		}
		h.Note(t.Context(), "claims", nil)
		h.Note(t.Context(), "claims", nil)
		if again, readable := strings.Count(log.String(), "answers again"), strings.Count(log.String(), `msg="readable again" what=claims`); again != 1 || readable != 1 || h.String() != "" {
			t.Errorf("answers %d times, readable %d times again, trouble %q:\n%s", again, readable, h.String(), log.String())
		}
		lines := log.Len()
		h.Note(t.Context(), "claims", apierrors.NewNotFound(schema.GroupResource{Resource: "resourceclaims"}, ""))
		if h.Note(t.Context(), "claims", nil); log.Len() != lines || h.String() != "" {
			t.Errorf("an API that is yet to come was logged: %s", log.String()[lines:])
		}
		h.Note(t.Context(), "claims", forbidden)
		if h.Forget("claims"); h.String() != "" {
			t.Errorf("what was forgotten is trouble: %s", h)
		}
		ended, cancel := context.WithCancel(t.Context())
		cancel()
		if h.Note(ended, "claims", io.EOF); h.String() != "" {
			t.Errorf("what ends with the program is trouble: %s", h)
		}
	})
}

func TestLasting(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := New(slog.New(slog.DiscardHandler))
		refused := &url.Error{Op: "Get", URL: "https://api:6443/x", Err: errors.New("connection refused")}
		is := func(what string, want bool, whats ...string) {
			t.Helper()
			if err := h.Lasting(time.Minute, whats...); (err != nil) != want {
				t.Errorf("%s: %v", what, err)
			}
		}
		is("nothing", false, "claims")
		for range 59 {
			h.Note(t.Context(), "claims", refused)
			time.Sleep(time.Second)
		}
		is("not long enough", false, "claims")
		time.Sleep(time.Second)
		is("a minute", true, "nodes")
		h.Note(t.Context(), "nodes", nil)
		is("it answers", false, "nodes")
		h.Note(t.Context(), "claims", refused)
		is("it has just begun again", false, "claims")
		h.Note(t.Context(), "claims", apierrors.NewForbidden(schema.GroupResource{Resource: "resourceclaims"}, "", nil))
		time.Sleep(time.Hour)
		is("of others", false, "nodes")
		is("forbidden", true, "nodes", "claims")
		h.Forget("claims")
		is("no longer asked for", false, "claims")
	})
}
