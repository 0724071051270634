package service

import (
	"html/template"
	"net"
	"net/http"
	"net/netip"
	"strings"
)

const (
	// cookieName is the cookie with the token of somebody who signed in. Browsers send a cookie
	// of this prefix only by TLS, and only to the server that set it.
	cookieName = "__Host-quoin-token"
	// maxForm bounds the form with the token.
	maxForm     = maxHeader
	signInPath  = "/map/sign-in"
	signOutPath = "/map/sign-out"
)

var signIn = template.Must(template.New("sign-in").Parse(`<!doctype html>
<html lang="en">
<meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1"><link rel="icon" href="data:,">
<title>Quoin: sign in</title>
<h1>Map of the cluster: sign in</h1>
<p role="alert">{{.Why}}</p>
<form method="post" action="{{.In}}">
<p><label>Token of Kubernetes <input name="token" type="password" autocomplete="off" required autofocus size="30"></label> <button>Sign in</button></p>
</form>
<p>The token needs the ClusterRole quoin-map-reader. <code>kubectl create token NAME</code> makes one of a service account, for an hour.</p>
<form method="post" action="{{.Out}}"><button>Sign out</button></form>
</html>
`))

// page serves the map to those who may get it. A program sends its token as a header. A browser
// cannot, so a form takes the token and keeps it in a cookie that no script reads and no other
// site sends.
func (a *access) page(next http.Handler) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /", func(w http.ResponseWriter, r *http.Request) {
		token := bearer(r)
		if cookie, err := r.Cookie(cookieName); token == "" && err == nil {
			token = cookie.Value
		}
		switch status := a.decideIf(r, token); {
		case status == http.StatusOK:
			next.ServeHTTP(w, r)
		case r.URL.Path == mapRight.path:
			showSignIn(w, token, status)
		default:
			http.Error(w, mapRight.refusal(status), status)
		}
	})
	mux.HandleFunc("GET "+signInPath, func(w http.ResponseWriter, _ *http.Request) { showSignIn(w, "", http.StatusOK) })
	mux.HandleFunc("POST "+signInPath, func(w http.ResponseWriter, r *http.Request) {
		r.Body = http.MaxBytesReader(w, r.Body, maxForm)
		token := strings.TrimSpace(r.PostFormValue("token"))
		if status := a.decideIf(r, token); status != http.StatusOK {
			showSignIn(w, token, status)
			return
		}
		setCookie(w, token, 0)
		http.Redirect(w, r, mapRight.path, http.StatusSeeOther)
	})
	mux.HandleFunc("POST "+signOutPath, func(w http.ResponseWriter, r *http.Request) {
		setCookie(w, "", -1)
		http.Redirect(w, r, signInPath, http.StatusSeeOther)
	})
	return http.NewCrossOriginProtection().Handler(mux) // no other site signs anybody in or out
}

func (a *access) decideIf(r *http.Request, token string) int {
	if token == "" {
		return http.StatusUnauthorized
	}
	return a.decide(r.Context(), token, mapRight)
}

// setCookie keeps the token for as long as the browser runs, or removes it if age is negative.
func setCookie(w http.ResponseWriter, token string, age int) {
	http.SetCookie(w, &http.Cookie{Name: cookieName, Value: token, Path: "/", Secure: true, HttpOnly: true, SameSite: http.SameSiteStrictMode, MaxAge: age})
}

func showSignIn(w http.ResponseWriter, token string, status int) {
	why := "Sign in to see it."
	if token != "" {
		why = "Not signed in: " + mapRight.refusal(status) + "."
	}
	h := w.Header()
	h.Set("Content-Type", "text/html; charset=utf-8")
	h.Set("Content-Security-Policy", "default-src 'none'; img-src data:; form-action 'self'; frame-ancestors 'none'; base-uri 'none'")
	h.Set("Cache-Control", "no-store")
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Referrer-Policy", "same-origin")
	w.WriteHeader(status)
	_ = signIn.Execute(w, map[string]string{"Why": why, "In": signInPath, "Out": signOutPath}) // the client has gone
}

// local serves those who reach this machine's loopback address: who may forward a port of the
// pod, or works on the machine. The question must name a loopback address, so that a page of
// another site cannot ask by a name of its own that leads here.
func local(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !isLoopback(r.Host) {
			http.Error(w, "the map is here only as localhost or 127.0.0.1", http.StatusMisdirectedRequest)
			return
		}
		next.ServeHTTP(w, r)
	})
}

// isLoopback reports whether an address, with or without a port, names this machine alone.
func isLoopback(address string) bool {
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		host = strings.Trim(address, "[]")
	}
	ip, err := netip.ParseAddr(host)
	return strings.EqualFold(host, "localhost") || err == nil && ip.IsLoopback()
}
