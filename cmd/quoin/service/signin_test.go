package service

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

// TestLocal refuses a name that somebody else made lead to this machine.
func TestLocal(t *testing.T) {
	h := local(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	for host, want := range map[string]int{
		"127.0.0.1:9838": 200, "localhost:9838": 200, "LOCALHOST": 200, "[::1]:9838": 200, "127.8.9.10": 200, "[::1]": 200,
		"evil.example:9838": 421, "127.0.0.1.evil.example": 421, "10.0.0.1:9838": 421, "localhost.evil.example": 421, "": 421,
	} {
		w, r := httptest.NewRecorder(), httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/map", nil)
		r.Host = host
		h.ServeHTTP(w, r)
		if w.Code != want {
			t.Errorf("host %q: %d, want %d", host, w.Code, want)
		}
	}
}

// TestSignIn asks with forms that no browser sends from the page itself.
func TestSignIn(t *testing.T) {
	a := &access{known: map[asked]decision{}}
	h := a.page(http.NotFoundHandler())
	for name, tt := range map[string]struct {
		method, path, site, body string
		want                     int
	}{
		"another site signs in":   {http.MethodPost, signInPath, "cross-site", "token=x", http.StatusForbidden},
		"another site signs out":  {http.MethodPost, signOutPath, "cross-site", "", http.StatusForbidden},
		"no token":                {http.MethodPost, signInPath, "same-origin", "token=", http.StatusUnauthorized},
		"a form that is too long": {http.MethodPost, signInPath, "same-origin", "token=" + strings.Repeat("x", maxForm+1), http.StatusUnauthorized},
		"signs out":               {http.MethodPost, signOutPath, "same-origin", "", http.StatusSeeOther},
		"writes to the map":       {http.MethodPost, "/map", "same-origin", "x", http.StatusMethodNotAllowed},
		"the form":                {http.MethodGet, signInPath, "none", "", http.StatusOK},
	} {
		w, r := httptest.NewRecorder(), httptest.NewRequestWithContext(t.Context(), tt.method, tt.path, strings.NewReader(tt.body))
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		r.Header.Set("Sec-Fetch-Site", tt.site)
		h.ServeHTTP(w, r)
		if w.Code != tt.want {
			t.Errorf("%s: %d, want %d", name, w.Code, tt.want)
		}
		if c := w.Header().Get("Set-Cookie"); name == "signs out" && !strings.Contains(c, "Max-Age=0; HttpOnly; Secure; SameSite=Strict") {
			t.Errorf("the cookie is %q", c)
		}
	}
}
