package images

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"

	"github.com/quoin-hpc/quoin/test/rig/cache"
	"github.com/quoin-hpc/quoin/test/rig/process"
	"github.com/quoin-hpc/quoin/test/rig/programs"
)

// slurmHooks make of Debian's packages what the operator's pods expect: Slurm's user is
// 401, /etc/slurm is empty, and there is a user with jobs.
const slurmHooks = `set -e
sed -i s/:64030:64030:/:401:401:/ "$1"/etc/passwd
sed -i s/:64030:/:401:/ "$1"/etc/group
find "$1"/var "$1"/etc -user 64030 -exec chown 401:401 {} +
echo alice:x:2001:2001::/tmp:/bin/bash >>"$1"/etc/passwd
echo alice:x:2001: >>"$1"/etc/group
rm -rf "$1"/var/cache/apt/archives/*.deb "$1"/var/lib/apt/lists/* "$1"/etc/slurm
mkdir -p "$1"/etc/slurm "$1"/run/slurm "$1"/var/spool/slurmd "$1"/var/log/slurm`

// slurmRoot returns a tar file of Debian's packages of Slurm 26.05: 120 MB.
func slurmRoot(ctx context.Context) (string, error) {
	return debian(ctx, "slurm", "forky", "--variant=apt",
		"--include=slurmctld,slurmd,slurm-client,slurmrestd,slurm-wlm-jwt-plugin,tini,procps,iproute2",
		`--aptopt=Acquire::Check-Valid-Until "false"`, `--aptopt=Acquire::Languages "none"`,
		"--dpkgopt=path-exclude=/usr/share/man/*", "--dpkgopt=path-exclude=/usr/share/doc/*", "--dpkgopt=path-exclude=/usr/share/locale/*",
		"--customize-hook="+slurmHooks)
}

// Base returns a tar file of what Quoin's own image has beside Quoin's programs. It has the C library of this machine's
// Debian release, which is the one that programs built here need.
func Base(ctx context.Context) (string, error) {
	source, err := programs.Root()
	if err != nil {
		return "", err
	}
	script := filepath.Join(source, "manifests/image/base.sh")
	text, err := os.ReadFile(script)
	if err != nil {
		return "", err
	}
	sum := sha256.Sum256(text)
	dir, err := cache.Folder("box-base-"+hex.EncodeToString(sum[:6]), func(staging string) error {
		fmt.Fprintln(os.Stderr, "fetching the packages of Quoin's image (once)")
		_, err := process.Output(exec.CommandContext(ctx, script, runtime.GOARCH, filepath.Join(staging, rootFile)))
		return err
	})
	return filepath.Join(dir, rootFile), err
}

// rootFile has the files of an image, in a folder that is made once.
const rootFile = "root.tar"

// debian returns a tar file of packages, and makes it when it is not there.
func debian(ctx context.Context, name, release string, args ...string) (string, error) {
	sum := sha256.Sum256([]byte(release + strings.Join(args, "\n")))
	dir, err := cache.Folder("box-"+name+"-"+hex.EncodeToString(sum[:6]), func(staging string) error {
		fmt.Fprintf(os.Stderr, "fetching packages of %s (once)\n", name)
		mirror, err := mirror(ctx)
		if err != nil {
			return err
		}
		_, err = process.Output(exec.CommandContext(ctx, "mmdebstrap", append(args, release, filepath.Join(staging, rootFile), mirror)...))
		return err
	})
	return filepath.Join(dir, rootFile), err
}

// mirror returns the first of this machine's package mirrors.
func mirror(ctx context.Context) (string, error) {
	out, err := exec.CommandContext(ctx, "apt-get", "indextargets", "--format", "$(REPO_URI)", "Created-By: Packages").Output()
	if err != nil {
		return "", fmt.Errorf("find the package mirror: %w", err)
	}
	first, _, ok := strings.Cut(string(out), "\n")
	if !ok {
		return "", fmt.Errorf("find the package mirror: apt has no sources")
	}
	return first, nil
}
