package main

import (
	"strings"
	"testing"
)

func TestCommandLine(t *testing.T) {
	job := map[string]string{"SLURM_JOB_ID": "7", "SLURM_JOB_GPUS": "0"}
	for _, tt := range []struct {
		name           string
		args           []string
		env            map[string]string
		code           int
		stdout, stderr string
	}{
		{"wrong flag in a job", []string{"prolog", "--nonsense"}, job, 0, "", "nonsense"},
		{"wrong command in a job", []string{"start"}, job, 0, "", `quoin-hook: command "start": want prolog or epilog; see quoin-hook --help`},
		{"a word too many", []string{"prolog", "now"}, job, 0, "", `argument "now": want flags only`},
		{"negative time", []string{"prolog", "--wait", "-1s"}, job, 0, "", "--wait -1s: want a time such as 2s"},
		{"wrong flag by hand", []string{"prolog", "--nonsense"}, nil, 2, "", "nonsense"},
		{"no job", []string{"epilog"}, nil, 0, "", "SLURM_JOB_ID is not set: nothing was done"},
		{"help", []string{"--help"}, nil, 0, "usage: quoin-hook", ""},
		{"version", []string{"--version"}, nil, 0, "quoin-hook ", ""},
		{"a call", []string{"epilog", "--run-dir", t.TempDir(), "--mapping-dir", t.TempDir()}, job, 0, "", ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var stdout, stderr strings.Builder
			code := run(t.Context(), tt.args, func(k string) string { return tt.env[k] }, &stdout, &stderr)
			if code != tt.code || !strings.HasPrefix(stdout.String(), tt.stdout) || !strings.Contains(stderr.String(), tt.stderr) || tt.stderr == "" && stderr.Len() > 0 {
				t.Errorf("exit %d, printed %q, %q", code, &stdout, &stderr)
			}
		})
	}
}
