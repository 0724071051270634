package service

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"strings"
	"sync"
	"time"

	authentication "k8s.io/api/authentication/v1"
	authorization "k8s.io/api/authorization/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
)

const (
	// allowedFor and refusedFor are how long an answer of the API server counts.
	allowedFor, refusedFor = time.Minute, 10 * time.Second
	// maxTokens bounds what is remembered.
	maxTokens = 256
)

// right is the right to get a path, which is no resource of Kubernetes.
type right struct {
	path string
	// role is the ClusterRole of the chart that has it.
	role string
}

var (
	metricsRight = right{"/metrics", "quoin-metrics-reader"}
	mapRight     = right{"/map", "quoin-map-reader"}
)

// access asks the API server who sends a token, and whether that one may get a path.
type access struct {
	client kubernetes.Interface
	log    *slog.Logger
	mu     sync.Mutex
	known  map[asked]decision
	told   string // the last error
}

// asked is who asks, by the digest of the token, and for what.
type asked struct {
	token [sha256.Size]byte
	path  string
}

// decision is an answer and how long it counts.
type decision struct {
	status int
	until  time.Time
}

func newAccess(cluster *rest.Config, log *slog.Logger) (*access, error) {
	if cluster == nil {
		return nil, errors.New("metricsAuthorize needs Kubernetes, which says who may read")
	}
	own := rest.CopyConfig(cluster) // questions about who may read delay no other request
	own.QPS, own.Burst, own.Timeout = 5, 10, headerTime
	client, err := kubernetes.NewForConfig(own)
	return &access{client: client, log: log, known: map[asked]decision{}}, err
}

// guard lets those through who may get the metrics.
func (a *access) guard(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		token := bearer(r)
		if token == "" {
			w.Header().Set("WWW-Authenticate", "Bearer")
			http.Error(w, "send a token of Kubernetes", http.StatusUnauthorized)
			return
		}
		if status := a.decide(r.Context(), token, metricsRight); status != http.StatusOK {
			http.Error(w, metricsRight.refusal(status), status)
			return
		}
		next.ServeHTTP(w, r)
	})
}

// bearer returns the token in the request's header, or nothing.
func bearer(r *http.Request) string {
	token, is := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
	if !is {
		return ""
	}
	return token
}

// refusal says why the holder of a token may not get the path.
func (right *right) refusal(status int) string {
	switch status {
	case http.StatusUnauthorized:
		return "the API server does not know the token"
	case http.StatusForbidden:
		return fmt.Sprintf("the token needs the right to get %s: bind the ClusterRole %s", right.path, right.role)
	}
	return "the API server does not say who may read " + right.path
}

// decide returns the status for the holder of a token.
func (a *access) decide(ctx context.Context, token string, to right) int {
	key, now := asked{sha256.Sum256([]byte(token)), to.path}, time.Now()
	a.mu.Lock()
	d, is := a.known[key]
	a.mu.Unlock()
	if is && now.Before(d.until) {
		return d.status
	}
	status, err := a.ask(ctx, token, to.path)
	a.mu.Lock()
	defer a.mu.Unlock()
	if err != nil {
		if ctx.Err() == nil && a.told != err.Error() {
			a.told = err.Error()
			a.log.Warn("the API server does not say who may read", "path", to.path, "err", err)
		}
		return http.StatusServiceUnavailable
	}
	d, a.told = decision{status, now.Add(refusedFor)}, ""
	if status == http.StatusOK {
		d.until = now.Add(allowedFor)
	}
	if len(a.known) >= maxTokens {
		clear(a.known)
	}
	a.known[key] = d
	return status
}

// ask asks the API server.
func (a *access) ask(ctx context.Context, token, path string) (int, error) {
	review, err := a.client.AuthenticationV1().TokenReviews().Create(ctx, &authentication.TokenReview{Spec: authentication.TokenReviewSpec{Token: token}}, metav1.CreateOptions{})
	if err != nil {
		return 0, err
	}
	if !review.Status.Authenticated {
		return http.StatusUnauthorized, nil
	}
	user := &review.Status.User
	extra := map[string]authorization.ExtraValue{}
	for k, v := range user.Extra {
		extra[k] = authorization.ExtraValue(v)
	}
	answer, err := a.client.AuthorizationV1().SubjectAccessReviews().Create(ctx, &authorization.SubjectAccessReview{Spec: authorization.SubjectAccessReviewSpec{
		User: user.Username, UID: user.UID, Groups: user.Groups, Extra: extra,
		NonResourceAttributes: &authorization.NonResourceAttributes{Path: path, Verb: "get"}}}, metav1.CreateOptions{})
	switch {
	case err != nil:
		return 0, err
	case !answer.Status.Allowed:
		return http.StatusForbidden, nil
	}
	return http.StatusOK, nil
}
