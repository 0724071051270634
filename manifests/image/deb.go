package main

import (
	"bytes"
	"compress/gzip"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"
)

// hookPath is the hook of the package. containerHook is the path in the scripts that the package
// takes over.
const hookPath, containerHook = "/usr/lib/quoin/quoin-hook", "/opt/quoin/bin/quoin-hook"

// deb writes the Debian package of an architecture by dpkg-deb.
func (s *source) deb(ctx context.Context, dir, arch string) (path string, size int64, err error) {
	work, err := os.MkdirTemp("", "quoin-deb-")
	if err != nil {
		return "", 0, err
	}
	defer func() { _ = os.RemoveAll(work) }()
	if err := s.programs(ctx, work, arch); err != nil {
		return "", 0, err
	}
	tree := filepath.Join(work, "tree")
	if err := s.tree(tree, work, arch); err != nil {
		return "", 0, err
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return "", 0, err
	}
	path = filepath.Join(dir, fmt.Sprintf("quoin_%s_%s.deb", s.version, arch))
	cmd := exec.CommandContext(ctx, "dpkg-deb", "--root-owner-group", "-Zxz", "--build", tree, path)
	cmd.Env = append(os.Environ(), fmt.Sprintf("SOURCE_DATE_EPOCH=%d", s.time.Unix()))
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", 0, fmt.Errorf("dpkg-deb: %w\n%s", err, out)
	}
	info, err := os.Stat(path)
	if err != nil {
		return "", 0, err
	}
	return path, info.Size(), nil
}

// packaged are the files of the package that come from the repository, or from the folder of the
// programs that were built.
var packaged = []struct {
	to, from string
	mode     os.FileMode
}{
	{"/usr/bin/quoin", "quoin", 0o755},
	{hookPath, "quoin-hook", 0o755},
	{"/usr/lib/quoin/prolog", "manifests/slinky/vendor/prolog/quoin.sh", 0o755},
	{"/usr/lib/quoin/epilog", "manifests/slinky/vendor/epilog/quoin.sh", 0o755},
	{"/usr/lib/quoin/taskprolog", "manifests/slurm/taskprolog-quoin.sh", 0o755},
	{"/usr/lib/systemd/system/quoin-agent.service", "manifests/systemd/quoin-agent.service", 0o644},
	{"/usr/lib/systemd/system/quoin-publisher.service", "manifests/systemd/quoin-publisher.service", 0o644},
	{"/usr/lib/sysusers.d/quoin.conf", "manifests/systemd/quoin.sysusers", 0o644},
	{"/usr/share/doc/quoin/examples/quoin.yaml", "manifests/systemd/quoin.yaml", 0o644},
}

// tree writes the files of the package. All of them have the time of the commit.
func (s *source) tree(tree, work, arch string) error {
	for _, f := range packaged {
		from := filepath.Join(s.root, f.from)
		if !strings.Contains(f.from, "/") {
			from = filepath.Join(work, f.from)
		}
		text, err := os.ReadFile(from)
		if err == nil && strings.HasSuffix(from, ".sh") {
			text = []byte(strings.ReplaceAll(string(text), containerHook, hookPath))
		}
		if err == nil {
			err = put(tree+f.to, string(text), f.mode)
		}
		if err != nil {
			return err
		}
	}
	for _, f := range []struct {
		to, text string
		mode     os.FileMode
	}{
		{"usr/share/doc/quoin/copyright", copyright, 0o644},
		{"usr/share/doc/quoin/changelog.gz", s.changelog(), 0o644},
		{"usr/share/lintian/overrides/quoin", overrides, 0o644},
		{"DEBIAN/control", fmt.Sprintf(control, s.version, arch), 0o644},
		{"DEBIAN/postinst", postinst, 0o755},
		{"DEBIAN/prerm", prerm, 0o755},
		{"DEBIAN/postrm", postrm, 0o755},
	} {
		if err := put(filepath.Join(tree, f.to), f.text, f.mode); err != nil {
			return err
		}
	}
	return filepath.WalkDir(tree, func(path string, _ os.DirEntry, err error) error {
		if err != nil {
			return err
		}
		return os.Chtimes(path, s.time, s.time)
	})
}

// changelog is the changelog in Debian's form. CHANGELOG.md is for people.
func (s *source) changelog() string {
	var out bytes.Buffer
	w := gzip.NewWriter(&out)
	_, _ = fmt.Fprintf(w, "quoin (%s) unstable; urgency=medium\n\n  * See CHANGELOG.md of commit %s.\n\n -- Quoin <quoin@quoin.dev>  %s\n", s.version, s.commit, s.time.Format(time.RFC1123Z))
	_ = w.Close() // a buffer takes everything
	return out.String()
}

func put(path, text string, mode os.FileMode) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	return os.WriteFile(path, []byte(text), mode)
}

const control = `Package: quoin
Version: %s
Architecture: %s
Maintainer: Quoin <quoin@quoin.dev>
Section: admin
Priority: optional
Depends: libc6 (>= 2.34)
Homepage: https://github.com/quoin-hpc/quoin
Description: keeps Slurm and the NVIDIA stack agreed about NVLink domains
 An agent on each GPU node reports the node's GPUs and NVLink fabric.
 A publisher writes topology.yaml and gres.conf for Slurm. A hook for
 Slurm's Prolog and Epilog says which job holds which GPU.
 .
 Nothing starts before /etc/quoin/quoin.yaml is there.
`

const copyright = `Format: https://www.debian.org/doc/packaging-manuals/copyright-format/1.0/
Upstream-Name: quoin
Source: https://github.com/quoin-hpc/quoin

Files: *
Copyright: The Quoin authors
License: Apache-2.0
 On Debian systems the license is in /usr/share/common-licenses/Apache-2.0.
`

// overrides are lintian's: the hook is static, so that it runs in any container.
const overrides = "quoin: statically-linked-binary *\n"

// The scripts of the package do nothing but tell systemd, where it runs. Slurm's jobs and
// /run/quoin are left alone.
const (
	postinst = `#!/bin/sh
set -e
if [ "$1" = configure ]; then
	command -v systemd-sysusers >/dev/null && systemd-sysusers quoin.conf
	if [ -d /run/systemd/system ]; then
		systemctl daemon-reload
		systemctl try-restart quoin-agent.service quoin-publisher.service
	fi
fi
exit 0
`
	prerm = `#!/bin/sh
set -e
if [ "$1" = remove ] && [ -d /run/systemd/system ]; then
	systemctl stop quoin-agent.service quoin-publisher.service
fi
exit 0
`
	postrm = `#!/bin/sh
set -e
if [ "$1" = purge ]; then
	rm -f /etc/systemd/system/multi-user.target.wants/quoin-agent.service /etc/systemd/system/multi-user.target.wants/quoin-publisher.service
fi
if [ -d /run/systemd/system ]; then
	systemctl daemon-reload
fi
exit 0
`
)
