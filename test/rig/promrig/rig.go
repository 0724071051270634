package promrig

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/quoin-hpc/quoin/test/rig/process"
)

// Promtool runs promtool in dir and returns what it said.
func Promtool(ctx context.Context, dir string, args ...string) (string, error) {
	bin, err := Build(ctx)
	if err != nil {
		return "", err
	}
	cmd := exec.CommandContext(ctx, filepath.Join(bin, "promtool"), args...)
	cmd.Dir = dir
	return process.Output(cmd)
}

// Server is a running Prometheus.
type Server struct {
	*process.Process
	url string
}

// Start starts a Prometheus with the configuration in dir, which is the caller's
// to remove after Stop, and waits until it is ready.
func Start(ctx context.Context, dir, config string) (*Server, error) {
	bin, err := Build(ctx)
	if err != nil {
		return nil, err
	}
	path := filepath.Join(dir, "prometheus.yml")
	if err := os.WriteFile(path, []byte(config), 0o644); err != nil {
		return nil, fmt.Errorf("start Prometheus: %w", err)
	}
	// Port 0: it says in its log which one it got.
	cmd := exec.Command(filepath.Join(bin, "prometheus"), "--config.file="+path, "--storage.tsdb.path="+filepath.Join(dir, "data"), //nolint:contextcheck // Stop ends it
		"--web.listen-address=127.0.0.1:0", "--log.level=info")
	log := filepath.Join(dir, "log")
	started, err := process.Start(cmd, log)
	if err != nil {
		return nil, err
	}
	s := &Server{Process: started}
	err = s.Ready(ctx, func(ctx context.Context) error {
		if s.url = address(log); s.url == "" {
			return errors.New("it does not listen")
		}
		return s.get(ctx, "/-/ready", nil, nil)
	})
	if err != nil {
		s.Stop()
		return nil, err
	}
	return s, nil
}

var listening = regexp.MustCompile(`"Listening on".* address=(127\.0\.0\.1:\d+)`)

// address returns where the server says that it listens, or nothing yet.
func address(log string) string {
	text, err := os.ReadFile(log)
	if err != nil {
		return ""
	}
	if m := listening.FindSubmatch(text); m != nil {
		return "http://" + string(m[1])
	}
	return ""
}

// Row is one series of an answer at one moment.
type Row struct {
	Labels map[string]string
	Value  float64
}

// Query evaluates a PromQL expression now.
func (s *Server) Query(ctx context.Context, expr string) ([]Row, error) {
	return s.QueryAt(ctx, expr, time.Now())
}

// QueryAt evaluates a PromQL expression at a time.
func (s *Server) QueryAt(ctx context.Context, expr string, at time.Time) ([]Row, error) {
	var answer struct {
		Data struct {
			Result []struct {
				Metric map[string]string `json:"metric"`
				Value  [2]any            `json:"value"`
			} `json:"result"`
		} `json:"data"`
	}
	if err := s.get(ctx, "/api/v1/query", url.Values{"query": {expr}, "time": {at.UTC().Format(time.RFC3339Nano)}}, &answer); err != nil {
		return nil, err
	}
	rows := make([]Row, 0, len(answer.Data.Result))
	for _, r := range answer.Data.Result {
		text, _ := r.Value[1].(string)
		v, err := strconv.ParseFloat(text, 64)
		if err != nil {
			return nil, fmt.Errorf("query %s: value %q: %w", expr, text, err)
		}
		rows = append(rows, Row{r.Metric, v})
	}
	return rows, nil
}

// Rule is a loaded rule and how its last evaluation went.
type Rule struct {
	Name   string `json:"name"`
	Type   string `json:"type"`
	Health string `json:"health"`
	Error  string `json:"lastError"`
	State  string `json:"state"`
	// Seconds is how long the last evaluation took.
	Seconds float64 `json:"evaluationTime"`
}

// Rules returns the loaded rules.
func (s *Server) Rules(ctx context.Context) ([]Rule, error) {
	var answer struct {
		Data struct {
			Groups []struct {
				Rules []Rule `json:"rules"`
			} `json:"groups"`
		} `json:"data"`
	}
	if err := s.get(ctx, "/api/v1/rules", nil, &answer); err != nil {
		return nil, err
	}
	var rules []Rule
	for _, g := range answer.Data.Groups {
		rules = append(rules, g.Rules...)
	}
	return rules, nil
}

// Target is a scraped address and how the last scrape of it went.
type Target struct {
	URL    string `json:"scrapeUrl"`
	Health string `json:"health"`
	Error  string `json:"lastError"`
}

// Targets returns what is scraped.
func (s *Server) Targets(ctx context.Context) ([]Target, error) {
	var answer struct {
		Data struct {
			Active []Target `json:"activeTargets"`
		} `json:"data"`
	}
	err := s.get(ctx, "/api/v1/targets", nil, &answer)
	return answer.Data.Active, err
}

// get asks the server and reads its JSON into answer unless that is nil.
func (s *Server) get(ctx context.Context, path string, form url.Values, answer any) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, s.url+path, strings.NewReader(form.Encode()))
	if err != nil {
		return err
	}
	req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	if form == nil {
		req.Method, req.Body = http.MethodGet, nil
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return fmt.Errorf("ask Prometheus for %s: %w", path, err)
	}
	defer func() { _ = resp.Body.Close() }()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		return fmt.Errorf("ask Prometheus for %s: %w", path, err)
	}
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("ask Prometheus for %s %s: %s: %s", path, form.Get("query"), resp.Status, body)
	}
	if answer == nil {
		return nil
	}
	return json.Unmarshal(body, answer)
}
