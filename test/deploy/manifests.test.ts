import { execFileSync } from 'node:child_process';
import { existsSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { describe, expect, test } from 'vitest';
import { parse, parseAllDocuments } from 'yaml';
import * as z from 'zod';

const ROOT = fileURLToPath(new URL('../../', import.meta.url));

const readDeploy = (name: string) => readFileSync(join(ROOT, 'deploy', name), 'utf8');

const probeSchema = z.object({ httpGet: z.object({ path: z.string(), port: z.string() }) });
const podSchema = z.object({
  terminationGracePeriodSeconds: z.number(),
  securityContext: z.object({ runAsNonRoot: z.literal(true) }),
  containers: z.tuple([
    z.object({
      args: z.array(z.string()),
      ports: z.array(z.object({ name: z.string(), containerPort: z.number() })),
      livenessProbe: probeSchema,
      readinessProbe: probeSchema,
      securityContext: z.object({ readOnlyRootFilesystem: z.literal(true) }),
    }),
  ]),
});
const deploymentSchema = z.object({
  kind: z.literal('Deployment'),
  spec: z.object({ template: z.object({ spec: podSchema }) }),
});

const pods = parseAllDocuments(readDeploy('kubernetes.yaml')).flatMap(document => {
  const read = deploymentSchema.safeParse(document.toJS());
  return read.success ? [read.data.spec.template.spec] : [];
});
const composeSchema = z.object({
  services: z.record(
    z.string(),
    z.object({
      command: z.array(z.string()).optional(),
      stop_grace_period: z.string().optional(),
      scale: z.number().optional(),
    }),
  ),
});
const { services } = composeSchema.parse(parse(readDeploy('compose.yaml'), { merge: true }));
const dockerfile = readDeploy('Dockerfile');

const commands = [
  ...pods.map(({ containers: [{ args }] }) => args),
  ...Object.values(services).flatMap(({ command }) => (command ? [command] : [])),
  JSON.parse(/^CMD (.*)$/m.exec(dockerfile)?.[1] ?? '[]') as string[],
];

/** The value of an option in a command, in s. */
const secondsOf = (args: readonly string[], name: string) =>
  Number(args[args.indexOf(name) + 1] ?? Number.NaN);

describe('the files in deploy/', () => {
  test('run a server and workers, on Kubernetes and with compose', () => {
    expect(pods.map(({ containers: [{ args }] }) => args[0]).sort()).toEqual(['serve', 'worker']);
    expect(services.worker?.scale).toBe(2);
    expect(services.server).toMatchObject({ scale: 1, stop_grace_period: '30s' });
  });

  test('name commands, options and files that exist', () => {
    for (const [command = '', ...args] of commands) {
      const help = execFileSync(process.execPath, [join(ROOT, 'cli/main.ts'), command, '--help'], {
        encoding: 'utf8',
      });
      for (const option of args.filter(arg => arg.startsWith('--')))
        expect(help).toMatch(new RegExp(`^ +${option}\\b`, 'm'));
      const agent = args[args.indexOf('--agent') + 1] ?? '';
      expect(existsSync(join(ROOT, 'deploy', agent)), agent).toBe(true);
      if (command === 'serve') expect(args).toContain('--no-drive');
    }
  });

  test('give a worker longer to stop than its grace time', () => {
    for (const {
      containers: [{ args }],
      terminationGracePeriodSeconds,
    } of pods)
      if (args[0] === 'worker')
        expect(terminationGracePeriodSeconds).toBeGreaterThan(secondsOf(args, '--grace'));
    const { command = [], stop_grace_period: period = '' } = services.worker ?? {};
    expect(Number.parseInt(period, 10)).toBeGreaterThan(secondsOf(command, '--grace'));
  });

  test('probe ports that the processes open, and ask only the readiness probe about the database', () => {
    for (const {
      containers: [{ args, ports, livenessProbe, readinessProbe }],
    } of pods) {
      expect([livenessProbe.httpGet.path, readinessProbe.httpGet.path]).toEqual(['/healthz', '/readyz']);
      for (const { httpGet } of [livenessProbe, readinessProbe]) {
        const port = ports.find(({ name }) => name === httpGet.port)?.containerPort;
        expect(port).toBe(args.includes('--port') ? secondsOf(args, '--port') : 4100);
      }
    }
  });

  test('make an image that runs the program of the package, as a user without rights', () => {
    const bin = z
      .object({ bin: z.object({ agentchart: z.string() }) })
      .parse(JSON.parse(readFileSync(join(ROOT, 'package.json'), 'utf8')));
    expect(dockerfile).toContain(`ENTRYPOINT ["node", "node_modules/agentchart/${bin.bin.agentchart}"]`);
    expect(dockerfile.match(/^FROM /gm)).toHaveLength(3);
    expect(dockerfile.slice(dockerfile.lastIndexOf('FROM '))).toMatch(/^USER [1-9]\d*$/m);
    for (const [, source = ''] of dockerfile.matchAll(/^COPY (?!--from|\. )(\S+)/gm))
      expect(existsSync(join(ROOT, source)), source).toBe(true);
  });
});
