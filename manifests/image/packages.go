package main

import (
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/goreleaser/nfpm/v2"
	"github.com/goreleaser/nfpm/v2/deb"
	"github.com/goreleaser/nfpm/v2/files"
	"github.com/goreleaser/nfpm/v2/rpm"
)

// writePackages writes the Debian package and the RPM of each architecture, and beside them what is
// in them. Both packages have the same programs, units and scripts.
func (s *source) writePackages(dir, work string, archs []string) (paths []string, err error) {
	for _, arch := range archs {
		made, err := s.packagesOf(dir, filepath.Join(work, "packages", arch), arch)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", arch, err)
		}
		paths = append(paths, made...)
	}
	return paths, nil
}

// packagesOf writes the packages of an architecture. The folder work takes their texts.
func (s *source) packagesOf(dir, work, arch string) (paths []string, err error) {
	if err := errors.Join(os.MkdirAll(work, 0o755), s.texts(work)); err != nil {
		return nil, err
	}
	for _, f := range []struct {
		writer nfpm.Packager
		needs  []string
	}{
		// The programs need the C library of Debian 12, Ubuntu 22.04, Red Hat Enterprise Linux 9, or newer.
		{deb.Default, []string{"libc6 (>= 2.34)"}},
		{rpm.DefaultRPM, []string{"/bin/sh", "/bin/bash", "libc.so.6(GLIBC_2.34)(64bit)"}},
	} {
		path, err := s.pack(f.writer, f.needs, dir, work, arch)
		if err != nil {
			return nil, err
		}
		paths = append(paths, path)
	}
	path, err := s.contents(dir, fmt.Sprintf("quoin-%s-%s-packages", s.version, arch), arch, nil)
	return append(paths, path), err
}

// pack writes one package of the programs and of the texts in the folder work.
func (s *source) pack(writer nfpm.Packager, needs []string, dir, work, arch string) (path string, err error) {
	script := func(name string) string { return filepath.Join(s.root, "manifests/systemd", name) }
	info := nfpm.WithDefaults(&nfpm.Info{
		Name: "quoin", Version: s.version, Arch: arch, MTime: s.time, DisableGlobbing: true,
		Section: "admin", Maintainer: "Quoin <quoin@quoin.dev>", Homepage: "https://github.com/quoin-hpc/quoin", License: "Apache-2.0",
		Description: description,
		Overridables: nfpm.Overridables{
			Depends: needs, Contents: s.files(work, arch),
			Scripts: nfpm.Scripts{PostInstall: script("after-install.sh"), PreRemove: script("before-remove.sh"), PostRemove: script("after-remove.sh")},
			Deb:     nfpm.Deb{Compression: "zstd:19"},
			RPM:     nfpm.RPM{Compression: "zstd:19", BuildHost: "localhost"}, // not the name of this machine
		},
	})
	path = filepath.Join(dir, writer.ConventionalFileName(info))
	file, err := os.Create(path)
	if err != nil {
		return "", err
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	return path, writer.Package(info, file)
}

// hookPath is the hook of the packages.
const hookPath = "/usr/lib/quoin/quoin-hook"

// onHost writes a script that runs in a container as one of a host with the package.
var onHost = strings.NewReplacer(
	"/opt/quoin/bin/quoin-hook", hookPath,
	"is the quoin agent on this node, and /opt/quoin/bin mounted?", "is the package quoin installed?",
)

// texts writes the files of the packages that are not in the repository as they are.
func (s *source) texts(work string) error {
	all := map[string]string{"copyright": copyright, "changelog.gz": s.changelog(), "overrides": overrides}
	for name, from := range map[string]string{
		"prolog": "manifests/slinky/vendor/prolog/quoin.sh",
		"epilog": "manifests/slinky/vendor/epilog/quoin.sh",
	} {
		text, err := os.ReadFile(filepath.Join(s.root, from))
		if err != nil {
			return err
		}
		if all[name] = onHost.Replace(string(text)); strings.Contains(all[name], "/opt/") {
			return fmt.Errorf("%s has a path of containers", from)
		}
	}
	for name, text := range all {
		if err := os.WriteFile(filepath.Join(work, name), []byte(text), 0o644); err != nil {
			return err
		}
	}
	return nil
}

// files are the files of the packages, and the folders that nobody else has.
func (s *source) files(work, arch string) files.Contents {
	var all files.Contents
	add := func(packager, to string, mode os.FileMode, from ...string) {
		all = append(all, &files.Content{Packager: packager, Destination: to, Source: filepath.Join(from...), FileInfo: &files.ContentFileInfo{Mode: mode}})
	}
	add("", "/usr/bin/quoin", 0o755, s.program(arch, "quoin"))
	all = append(all, &files.Content{Type: files.TypeSymlink, Source: "quoin", Destination: "/usr/bin/kubectl-quoin"}) // kubectl's plugin
	add("", hookPath, 0o755, s.program(arch, "quoin-hook"))
	for _, name := range []string{"prolog", "epilog"} {
		add("", "/usr/lib/quoin/"+name, 0o755, work, name)
	}
	systemd := filepath.Join(s.root, "manifests/systemd")
	for _, name := range []string{"quoin-agent.service", "quoin-publisher.service"} {
		add("", "/usr/lib/systemd/system/"+name, 0o644, systemd, name)
	}
	add("", "/usr/lib/sysusers.d/quoin.conf", 0o644, systemd, "quoin.sysusers")
	// Not in /usr/share/doc: minimal images of Ubuntu and Red Hat's systems install nothing there.
	add("", "/usr/share/quoin/quoin.yaml", 0o644, systemd, "quoin.yaml")
	add("deb", "/usr/share/doc/quoin/copyright", 0o644, work, "copyright")
	add("deb", "/usr/share/doc/quoin/changelog.gz", 0o644, work, "changelog.gz")
	add("deb", "/usr/share/lintian/overrides/quoin", 0o644, work, "overrides")
	add("rpm", "/usr/share/licenses/quoin/LICENSE", 0o644, s.root, "LICENSE")
	for _, folder := range []string{"/usr/lib/quoin", "/usr/share/quoin", "/usr/share/licenses/quoin"} {
		// dpkg owns all folders of a package by itself; rpm owns only the folders that are listed
		all = append(all, &files.Content{Packager: "rpm", Destination: folder, Type: files.TypeDir})
	}
	return all
}

// changelog is the changelog in Debian's form. CHANGELOG.md is for people.
func (s *source) changelog() string {
	var out bytes.Buffer
	w := gzip.NewWriter(&out)
	_, _ = fmt.Fprintf(w, "quoin (%s) unstable; urgency=medium\n\n  * See CHANGELOG.md of commit %s.\n\n -- Quoin <quoin@quoin.dev>  %s\n", s.version, s.commit, s.time.Format(time.RFC1123Z))
	_ = w.Close() // a buffer takes everything
	return out.String()
}

const description = `keeps Slurm and the NVIDIA stack agreed about NVLink domains
An agent on each GPU node reports the node's GPUs and NVLink fabric.
A publisher writes topology.yaml and gres.conf for Slurm. A hook for
Slurm's Prolog and Epilog says which job holds which GPU.

Nothing starts before /etc/quoin/quoin.yaml is there.`

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
