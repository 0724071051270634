package client

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/quoin-hpc/quoin/slurmconf/slurmctld"
)

// parsers are slurmrestd's data parsers, the newest first. Slurm 26.11, 26.05, 25.11 and 25.05 each brought
// one. 26.11 was read in its source alone. sayConf is the first that has the answer conf.
var parsers = []string{"v0.0.46", sayConf, "v0.0.44", "v0.0.43"}

const sayConf = "v0.0.45"

// maxToken and maxError bound what is read of a token file and of an answer that is an error.
const (
	maxToken = 16 << 10
	maxError = 4 << 10
)

// errNoParser is returned if slurmrestd has none of the data parsers.
var errNoParser = errors.New("slurmrestd has none of the data parsers " + strings.Join(parsers, ", ") + ": want Slurm 25.05 or newer")

// REST asks slurmrestd.
type REST struct {
	base, tokenFile string
	client          *http.Client
	// parser is the data parser that answered last, or "".
	parser string
}

// NewREST returns what asks the slurmrestd at the address: http://HOST:PORT, https://HOST:PORT
// or unix:/PATH. tokenFile holds the token of a Slurm user, as scontrol token prints it. The file
// is read for each question, so that the token may be renewed. It may be empty if slurmrestd asks
// for none.
func NewREST(address, tokenFile string) *REST {
	transport := &http.Transport{DisableCompression: true, IdleConnTimeout: time.Minute}
	base := strings.TrimSuffix(address, "/")
	if path, is := strings.CutPrefix(address, "unix:"); is {
		path, base = "/"+strings.TrimLeft(path, "/"), "http://localhost"
		transport.DialContext = func(ctx context.Context, _, _ string) (net.Conn, error) {
			var d net.Dialer
			return d.DialContext(ctx, "unix", path)
		}
	}
	stay := func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse } // the token goes nowhere else
	return &REST{base: base, tokenFile: tokenFile, client: &http.Client{Transport: transport, CheckRedirect: stay}}
}

// Ask implements Asker. It always asks when slurmctld read its files, and which release it is.
func (r *REST) Ask(ctx context.Context, q Question) (*slurmctld.State, error) {
	began := time.Now()
	times, err := r.times(ctx)
	if err != nil {
		return nil, err
	}
	s := &slurmctld.State{Release: times.Release}
	if age, known := times.Age(); known {
		s.Read = began.Add(-age)
	}
	return s, q.ask(s, func(read func(body io.Reader) error, what ...string) error {
		path := what[0] + "/"
		switch {
		case what[0] == "job":
			path += url.PathEscape(q.Job)
		case what[0] == "jobs" && !q.Details:
			path += "?flags=ALL"
		}
		return r.get(ctx, path, read)
	})
}

// Reconfigure asks slurmctld to read its files again. The token must be that of root,
// SlurmUser or an operator.
func (r *REST) Reconfigure(ctx context.Context) error {
	if _, err := r.times(ctx); err != nil { // which finds the data parser
		return err
	}
	return r.get(ctx, "reconfigure/", func(io.Reader) error { return nil })
}

// times asks for slurmctld's times by the data parser that answered last, or by the newest
// one that answers.
func (r *REST) times(ctx context.Context) (*slurmctld.Times, error) {
	try := parsers
	if r.parser != "" {
		try = slices.Concat([]string{r.parser}, parsers)
	}
	for _, r.parser = range try {
		t, err := r.timesBy(ctx)
		if status := new(statusError); errors.As(err, &status) && status.code == http.StatusNotFound {
			continue
		}
		return t, err
	}
	r.parser = ""
	return nil, errNoParser
}

// timesBy asks by the present data parser.
func (r *REST) timesBy(ctx context.Context) (*slurmctld.Times, error) {
	t := &slurmctld.Times{}
	err := r.get(ctx, "diag/", t.ReadDiag)
	if err == nil && r.parser >= sayConf {
		err = r.get(ctx, "conf", t.ReadConf)
	}
	return t, err
}

// statusError is an answer that is no success.
type statusError struct {
	code          int
	path, message string
}

// Error names the request, the status and what slurmrestd said.
func (e *statusError) Error() string {
	text := fmt.Sprintf("slurmrestd GET %s: %d %s", e.path, e.code, http.StatusText(e.code))
	if e.message != "" {
		text += ": " + e.message
	}
	return text
}

// get asks for a path below /slurm/PARSER/.
func (r *REST) get(ctx context.Context, path string, read func(body io.Reader) error) error {
	path = "/slurm/" + r.parser + "/" + path
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, r.base+path, nil)
	if err != nil {
		return fmt.Errorf("ask slurmrestd: %w", err)
	}
	req.Header.Set("Accept", "application/json")
	if r.tokenFile != "" {
		token, err := readToken(r.tokenFile)
		if err != nil {
			return err
		}
		req.Header.Set("X-Slurm-User-Token", token)
	}
	resp, err := r.client.Do(req)
	if err != nil {
		return fmt.Errorf("ask slurmrestd: %w", err)
	}
	defer func() { _ = resp.Body.Close() }()
	if resp.StatusCode != http.StatusOK {
		return &statusError{resp.StatusCode, path, r.says(resp.Body)}
	}
	if err := read(resp.Body); err != nil {
		return fmt.Errorf("slurmrestd GET %s: %w", path, err)
	}
	return nil
}

// says returns what an answer says is wrong, and what to do about the token.
func (r *REST) says(body io.Reader) string {
	text, _ := io.ReadAll(io.LimitReader(body, maxError)) // what there is of it is enough
	message := slurmctld.ErrorText(text)
	if strings.Contains(message, "authentication") || strings.Contains(message, "Invalid user") {
		message += "; does " + r.tokenFile + " hold a token that is valid, of a user who may do this?"
	}
	return message
}

// readToken reads a file with a token alone, or with SLURM_JWT=TOKEN.
func readToken(name string) (string, error) {
	f, err := os.Open(name)
	if err != nil {
		return "", fmt.Errorf("read token: %w", err)
	}
	defer func() { _ = f.Close() }()
	text, err := io.ReadAll(io.LimitReader(f, maxToken))
	if err != nil {
		return "", fmt.Errorf("read token: %w", err)
	}
	token := strings.TrimPrefix(strings.TrimSpace(string(text)), "SLURM_JWT=")
	if token == "" || strings.ContainsFunc(token, func(c rune) bool { return c <= ' ' || c > '~' }) {
		return "", fmt.Errorf("read token: %s: want one line with a token, as scontrol token prints it", name)
	}
	return token, nil
}
