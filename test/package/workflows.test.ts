import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { describe, expect, test } from 'vitest';
import { parse } from 'yaml';
import * as z from 'zod';

/** What runs on GitHub, as far as it can be checked here. */

const GITHUB = fileURLToPath(new URL('../../.github', import.meta.url));

const permissionsSchema = z.record(z.string(), z.enum(['read', 'write']));
const stepSchema = z.strictObject({
  id: z.string().optional(),
  uses: z.string().optional(),
  run: z.string().optional(),
  with: z.record(z.string(), z.unknown()).optional(),
  env: z.record(z.string(), z.string()).optional(),
});
const workflowSchema = z.strictObject({
  name: z.string(),
  on: z.record(z.string(), z.unknown()),
  permissions: permissionsSchema,
  concurrency: z.unknown().optional(),
  jobs: z.record(
    z.string(),
    z.strictObject({
      needs: z.string().optional(),
      'runs-on': z.string(),
      container: z.string().optional(),
      'timeout-minutes': z.number(),
      environment: z.unknown().optional(),
      permissions: permissionsSchema.optional(),
      steps: z.array(stepSchema),
    }),
  ),
});

const readText = (path: string) => readFileSync(join(GITHUB, path), 'utf8');
const readWorkflow = (name: string) => workflowSchema.parse(parse(readText(`workflows/${name}`)));
const names = readdirSync(join(GITHUB, 'workflows'));

test.each(names)('%s: every action is pinned by its commit, with the version in a comment', name => {
  const uses = readText(`workflows/${name}`).match(/uses: .+/g) ?? [];
  expect(uses.length).toBeGreaterThan(0);
  for (const line of uses) expect(line).toMatch(/^uses: actions\/[\w-]+@[0-9a-f]{40} # v\d+\.\d+\.\d+$/);
});

test.each(names)('%s: reads the sources and nothing else, except in the jobs that publish', name => {
  const { permissions, jobs } = readWorkflow(name);
  expect(permissions).toEqual({ contents: 'read' });
  const more = Object.entries(jobs).flatMap(([job, given]) =>
    given.permissions ? [[job, given.permissions]] : [],
  );
  const expected: Record<string, unknown> = {
    'ci.yml': {},
    'pages.yml': { deploy: { pages: 'write', 'id-token': 'write' } },
    'release.yml': { publish: { contents: 'read', 'id-token': 'write' } },
  };
  expect(Object.fromEntries(more)).toEqual(expected[name]);
});

test.each(names)(
  '%s: keeps no credentials in the checkout, and pastes nothing that others write into a shell',
  name => {
    const steps = Object.values(readWorkflow(name).jobs).flatMap(job => job.steps);
    for (const step of steps) {
      if (step.uses?.startsWith('actions/checkout@'))
        expect(step.with).toEqual({ 'persist-credentials': false });
      expect(step.run ?? '').not.toContain('${{');
    }
  },
);

describe('what runs', () => {
  const runs = (job: { steps: readonly { run?: string | undefined }[] } | undefined) =>
    (job?.steps ?? []).flatMap(({ run }) => (run === undefined ? [] : [run]));

  test('a change is tested by .ci/run alone, and so is a tag before it is published', () => {
    expect(runs(readWorkflow('ci.yml').jobs.test)).toEqual(['.ci/run']);
    const { test: tested, publish } = readWorkflow('release.yml').jobs;
    expect(runs(tested)).toEqual(['.ci/run']);
    expect(publish?.needs).toBe('test');
  });

  test('both packages are published, with provenance, after the release was prepared', () => {
    const commands = runs(readWorkflow('release.yml').jobs.publish);
    expect(commands[1]).toContain('.ci/prepare-release.ts');
    const published = commands.filter(command => command.startsWith('npm publish --provenance '));
    expect(published.map(command => /\/([a-z-]+)-\*\.tgz$/.exec(command)?.[1])).toEqual([
      'agentchart',
      'create-agentchart',
    ]);
  });
});

test('dependabot updates the packages and the actions, in groups', () => {
  const { updates } = parse(readText('dependabot.yml'));
  expect(updates.map((update: Record<string, unknown>) => update['package-ecosystem'])).toEqual([
    'npm',
    'github-actions',
  ]);
  for (const update of updates) expect(Object.keys(update.groups)).not.toEqual([]);
});

test('an issue is a bug or a feature, and a form asks for what helps and warns of secrets', () => {
  const forms = readdirSync(join(GITHUB, 'ISSUE_TEMPLATE'));
  expect(forms.sort()).toEqual(['bug.yml', 'config.yml', 'feature.yml']);
  const bug = readText('ISSUE_TEMPLATE/bug.yml');
  for (const form of ['bug.yml', 'feature.yml']) {
    const { body } = parse(readText(`ISSUE_TEMPLATE/${form}`));
    const fields = body.filter(({ type }: { type: string }) => type !== 'markdown');
    for (const { id, attributes } of fields)
      expect([typeof id, typeof attributes.label]).toEqual(['string', 'string']);
  }
  for (const words of [
    'Paste no secrets',
    'agentchart show RUN --json',
    'agentchart doctor',
    'agentchart redact',
  ])
    expect(bug).toContain(words);
  expect(parse(readText('ISSUE_TEMPLATE/config.yml')).blank_issues_enabled).toBe(false);
});
