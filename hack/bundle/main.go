// Copyright The Chartgate Authors.
// SPDX-License-Identifier: Apache-2.0

// Command bundle makes the bundle that the Operator Lifecycle Manager installs
// Chartgate from. kustomize and operator-sdk do most of it; this adds what they
// can't find out. The same sources make the same bundle.
package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/pflag"

	"github.com/chartgate/chartgate/hack/ociimage"
	"github.com/chartgate/chartgate/hack/olm"
)

func main() {
	ctx, cancel := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer cancel()
	if err := run(ctx, os.Args[1:]); err != nil && !errors.Is(err, pflag.ErrHelp) {
		fmt.Fprintln(os.Stderr, "bundle:", err)
		os.Exit(1)
	}
}

// options of the command line.
type options struct {
	kustomize   string
	operatorSDK string
	version     string
	image       string
	digestFile  string
	output      string
	dockerfile  string
	validate    bool
	buildImage  string
	imageOutput string
	push        bool
}

func run(ctx context.Context, args []string) error {
	var o options
	flags := pflag.NewFlagSet("bundle", pflag.ContinueOnError)
	flags.StringVar(&o.kustomize, "kustomize", "bin/kustomize", "kustomize")
	flags.StringVar(&o.operatorSDK, "operator-sdk", "bin/operator-sdk", "operator-sdk")
	flags.StringVar(&o.version, "version", "", "version of the bundle, without a v (default: what the file VERSION says)")
	flags.StringVar(&o.image, "image", "", "the operator's image (default: ghcr.io/chartgate/chartgate:v and the version)")
	flags.StringVar(&o.digestFile, "image-digest-from", "", "file that holds the image's digest, as make image writes it: the bundle names the image by it")
	flags.StringVar(&o.output, "output", "bundle", "folder of the bundle")
	flags.StringVar(&o.dockerfile, "dockerfile", "", "file for the Dockerfile of the bundle's image, if one is wanted")
	flags.BoolVar(&o.validate, "validate", false, "check the bundle in the folder, and make none")
	flags.StringVar(&o.buildImage, "build-image", "", "build the image of the bundle in the folder by this name, and make no bundle")
	flags.StringVar(&o.imageOutput, "image-output", "bin/bundle-image", "folder for the bundle's image and its digest")
	flags.BoolVar(&o.push, "push", false, "push the bundle's image to the registry that its name says")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if flags.NArg() > 0 {
		return fmt.Errorf("unexpected argument %q", flags.Arg(0))
	}
	switch {
	case o.validate:
		return validate(ctx, o.operatorSDK, o.output)
	case o.buildImage != "":
		return o.packImage(ctx)
	}
	if o.version == "" {
		content, err := os.ReadFile("VERSION")
		if err != nil {
			return err
		}
		o.version = strings.TrimSpace(string(content))
	}
	if o.image == "" {
		o.image = "ghcr.io/chartgate/chartgate:v" + o.version
	}
	if o.digestFile != "" {
		digest, err := os.ReadFile(o.digestFile)
		if err != nil {
			return fmt.Errorf("%w: make image writes it", err)
		}
		o.image = repository(o.image) + "@" + strings.TrimSpace(string(digest))
	}
	return o.generate(ctx)
}

// repository cuts tag and digest off an image's reference.
func repository(image string) string {
	image, _, _ = strings.Cut(image, "@")
	if i := strings.LastIndex(image, ":"); i > strings.LastIndex(image, "/") {
		image = image[:i]
	}
	return image
}

func (o *options) generate(ctx context.Context) error {
	channels, err := olm.Channels(o.version)
	if err != nil {
		return err
	}
	manifests, err := command(ctx, "", nil, o.kustomize, "build", "config/manifests")
	if err != nil {
		return err
	}
	// operator-sdk writes next to the file PROJECT, which it reads.
	dir, err := os.MkdirTemp("", "chartgate-bundle-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	project, err := os.ReadFile("PROJECT")
	if err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(dir, "PROJECT"), project, 0o600); err != nil { //nolint:gosec // a folder that was made above
		return err
	}
	sdk, err := filepath.Abs(o.operatorSDK)
	if err != nil {
		return err
	}
	if _, err := command(ctx, dir, manifests, sdk, "generate", "bundle", "--quiet", "--version", o.version,
		"--channels", strings.Join(channels, ","), "--default-channel", channels[0]); err != nil {
		return err
	}
	generated := filepath.Join(dir, "bundle")
	if err := o.finish(generated); err != nil {
		return err
	}
	if err := os.RemoveAll(o.output); err != nil {
		return err
	}
	if err := os.CopyFS(o.output, os.DirFS(generated)); err != nil {
		return fmt.Errorf("write the bundle to %s: %w", o.output, err)
	}
	if o.dockerfile == "" {
		return nil
	}
	content, err := os.ReadFile(filepath.Join(dir, "bundle.Dockerfile")) //nolint:gosec // a folder that was made above
	if err != nil {
		return err
	}
	return os.WriteFile(o.dockerfile, content, 0o644) //nolint:gosec // to be read by anybody
}

// finish completes what operator-sdk generated.
func (o *options) finish(dir string) error {
	// OLM makes a Service of its own for a webhook.
	service := filepath.Join(dir, "manifests", "chartgate-webhook-service_v1_service.yaml")
	if err := os.Remove(service); err != nil {
		return fmt.Errorf("config/webhook has no longer the Service that OLM replaces: %w", err)
	}
	bundle, err := olm.Read(dir)
	if err != nil {
		return err
	}
	icon, err := os.ReadFile(filepath.Join("config", "manifests", "icon.svg"))
	if err != nil {
		return err
	}
	resources, err := chartResources("watches.yaml")
	if err != nil {
		return err
	}
	details := olm.Details{Image: o.image, Icon: icon, Resources: resources}
	// As for all that is built reproducibly: https://reproducible-builds.org/specs/source-date-epoch
	if epoch := os.Getenv("SOURCE_DATE_EPOCH"); epoch != "" {
		seconds, err := strconv.ParseInt(epoch, 10, 64)
		if err != nil {
			return fmt.Errorf("SOURCE_DATE_EPOCH: %w", err)
		}
		details.CreatedAt = time.Unix(seconds, 0)
	}
	if err := bundle.Finish(details); err != nil {
		return err
	}
	// Tests of this project's own are of the bundle's version.
	err = bundle.SetScorecardImages(func(image string) string {
		if repository(image) != image {
			return image
		}
		return image + ":v" + bundle.Version
	})
	if err != nil {
		return err
	}
	return bundle.Write()
}

// packImage makes the image of a bundle.
func (o *options) packImage(ctx context.Context) error {
	bundle, err := olm.Read(o.output)
	if err != nil {
		return err
	}
	image, err := bundle.Image()
	if err != nil {
		return err
	}
	if err := os.MkdirAll(o.imageOutput, 0o755); err != nil { //nolint:gosec // to be read by anybody
		return err
	}
	if err := ociimage.Save(filepath.Join(o.imageOutput, "bundle.tar"), o.buildImage, image); err != nil {
		return err
	}
	return ociimage.Publish(ctx, os.Stdout, o.buildImage, o.imageOutput, o.push, image)
}

// command runs a program and returns what it prints. Its messages go to stderr if it fails.
func command(ctx context.Context, dir string, stdin []byte, program string, args ...string) ([]byte, error) {
	cmd := exec.CommandContext(ctx, program, args...) //nolint:gosec // a program of the Makefile's
	cmd.Dir = dir
	// operator-sdk asks what its input is: it has to be a pipe.
	if stdin != nil {
		cmd.Stdin = bytes.NewBuffer(stdin)
	}
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := cmd.Run(); err != nil {
		return stdout.Bytes(), fmt.Errorf("%s %s: %w\n%s%s", program, strings.Join(args, " "), err, stdout.Bytes(), stderr.Bytes())
	}
	return stdout.Bytes(), nil
}
