package service

import (
	"context"
	"crypto/sha256"
	"errors"
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

// access asks the API server who sends a token, and whether that one may get the metrics.
type access struct {
	client kubernetes.Interface
	log    *slog.Logger
	mu     sync.Mutex
	known  map[[sha256.Size]byte]decision // by the digest of the token
	told   string                         // the last error
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
	return &access{client: client, log: log, known: map[[sha256.Size]byte]decision{}}, err
}

// guard lets those through who may get the metrics.
func (a *access) guard(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		token, is := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
		if !is || token == "" {
			w.Header().Set("WWW-Authenticate", "Bearer")
			http.Error(w, "send a token of Kubernetes", http.StatusUnauthorized)
			return
		}
		if status := a.decide(r.Context(), token); status != http.StatusOK {
			http.Error(w, refusal(status), status)
			return
		}
		next.ServeHTTP(w, r)
	})
}

// refusal says why the holder of a token may not get the metrics.
func refusal(status int) string {
	switch status {
	case http.StatusUnauthorized:
		return "the API server does not know the token"
	case http.StatusForbidden:
		return "the token needs the right to get /metrics: bind the ClusterRole quoin-metrics-reader"
	}
	return "the API server does not say who may read /metrics"
}

// decide returns the status for the holder of a token.
func (a *access) decide(ctx context.Context, token string) int {
	key, now := sha256.Sum256([]byte(token)), time.Now()
	a.mu.Lock()
	d, is := a.known[key]
	a.mu.Unlock()
	if is && now.Before(d.until) {
		return d.status
	}
	status, err := a.ask(ctx, token)
	a.mu.Lock()
	defer a.mu.Unlock()
	if err != nil {
		if ctx.Err() == nil && a.told != err.Error() {
			a.told = err.Error()
			a.log.Warn("the API server does not say who may read /metrics", "err", err)
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
func (a *access) ask(ctx context.Context, token string) (int, error) {
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
		NonResourceAttributes: &authorization.NonResourceAttributes{Path: "/metrics", Verb: "get"}}}, metav1.CreateOptions{})
	switch {
	case err != nil:
		return 0, err
	case !answer.Status.Allowed:
		return http.StatusForbidden, nil
	}
	return http.StatusOK, nil
}
