import { execFileSync } from 'node:child_process';
import { mkdirSync, mkdtempSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join, relative } from 'node:path';
import { pathToFileURL } from 'node:url';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { parse } from 'yaml';
import * as z from 'zod';
import { scripted } from '../../adapters/scripted.ts';
import { createAgent, never } from '../../agent/index.ts';
import { type SkillsOptions, skills } from '../../tools/skills.ts';
import { tool } from '../../tools/tool.ts';
import { rejectionOf, runTool } from '../support/tools/call-context.ts';

let root = '';

beforeEach(() => {
  root = mkdtempSync(join(tmpdir(), 'agentchart-skills-'));
});
afterEach(() => rmSync(root, { recursive: true }));

function write(path: string, text: string | Uint8Array): void {
  mkdirSync(dirname(join(root, path)), { recursive: true });
  writeFileSync(join(root, path), text);
}

function writeSkill(name: string, description = 'Fills forms.', body = `How to use ${name}.`): void {
  write(`skills/${name}/SKILL.md`, `---\nname: ${name}\ndescription: ${description}\n---\n\n${body}\n`);
}

const open = (options?: SkillsOptions) => skills(join(root, 'skills'), options);

const read = (skill: string, path?: string) =>
  runTool([open()], 'read_skill', path === undefined ? { skill } : { skill, path });

const messageOf = async (reading: Promise<unknown>) => String(await rejectionOf(reading));

const refusal = async (skill: string, path: string) => await messageOf(read(skill, path));

function attemptYaml(text: string): unknown {
  try {
    return parse(text);
  } catch {
    return undefined;
  }
}

describe('the list of skills', () => {
  it('is in the description of the tool, by name, and is not read again', () => {
    writeSkill('pdf', 'Fills forms.');
    writeSkill('csv', '>\n  Reads tables,\n  large ones too.\nlicense: MIT\nmetadata:\n  author: ada');
    write('skills/README.md', 'No skill.');
    write('skills/shared/logo.svg', '<svg/>');
    const opened = open();
    expect(opened.name).toBe('read_skill');
    expect(opened.description).toMatch(/\n- csv: Reads tables, large ones too\.\n- pdf: Fills forms\.$/);
    const { description } = opened;
    writeSkill('new');
    expect(opened.description).toBe(description);
  });

  it('is found by a path, relative or not, and by a URL', () => {
    writeSkill('pdf');
    const folder = join(root, 'skills');
    const { description } = skills(folder);
    expect(skills(relative(process.cwd(), folder)).description).toBe(description);
    expect(skills(pathToFileURL(folder)).description).toBe(description);
  });

  it('stays small: many long descriptions are cut, and no description can fake another skill', () => {
    for (let at = 10; at < 60; at += 1)
      writeSkill(`skill-${at}`, `"Does much.\\n- fake: ${'x'.repeat(1_000)}"`);
    const { description } = open();
    expect(description.length).toBeLessThan(20_000);
    expect(description.match(/^- [\w-]+:/gm)).toHaveLength(50);
    expect(description).not.toMatch(/^- fake/m);
  });

  const asYamlReads = [
    'Reads tables.',
    '  Reads tables. # and more',
    'Reads\n  tables.',
    '"Reads\\u0020tables."',
    '"Reads\n  tables." # yes',
    "'It''s #1: tables'",
    'What is C#? A: b:c, and -1',
    'https://example.com - see',
    '>\n  Reads\n  tables.',
    '>-\n  Reads\n\n  tables: all\n  # of them',
    '|\n  Reads\n  tables.\nlicense: MIT\nmetadata:\n  author: ada\n  description: no\nallowed-tools:\n- Bash(git:*)\n- Read',
  ];
  it.each(asYamlReads)('has the description %j as YAML reads it', description => {
    writeSkill('csv', description);
    const outcome = () => open().description.split('- csv: ')[1];
    const { success, data } = z
      .object({ description: z.string() })
      .safeParse(attemptYaml(`name: csv\ndescription: ${description}`));
    if (success) expect(outcome()).toBe(data.description.replaceAll(/\s+/g, ' ').trim());
    else expect(outcome).toThrow(/Put it in quotes/);
  });

  it.each([
    ['no front matter', 'How to.', /does not begin with front matter/],
    ['open front matter', '---\nname: pdf\ndescription: x\n', /does not begin with front matter/],
    ['a mapping as text', '---\nname: pdf\ndescription: Use: it\n---\n', /"description" is not a plain text/],
    ['an alias', '---\nname: pdf\ndescription: *a\n---\n', /"description" is not a plain text/],
    ['an open quote', '---\nname: pdf\ndescription: "x\n---\n', /"description" is not a plain text/],
    ['a wrong escape', '---\nname: pdf\ndescription: "\\q"\n---\n', /cannot be read/],
    ['a list as text', '---\nname: pdf\ndescription:\n- x\n---\n', /"description" is not a plain text/],
    [
      'what is no field',
      '---\nname: pdf\nHow to\n---\n',
      /expected a line such as "name: value", got "How to"/,
    ],
    ['a field twice', '---\nname: pdf\nname: pdf\n---\n', /"name" is there twice/],
    ['no name', '---\ndescription: x\n---\n', /"name" to be the name of its folder, "pdf", got undefined/],
    [
      'another name',
      '---\nname: doc\ndescription: x\n---\n',
      /"name" to be the name of its folder, "pdf", got "doc"/,
    ],
    ['no description', '---\nname: pdf\n---\n', /expected "description" to be a text/],
    ['a blank description', '---\nname: pdf\ndescription: " "\n---\n', /expected "description" to be a text/],
    [
      'a long description',
      `---\nname: pdf\ndescription: ${'x'.repeat(1_025)}\n---\n`,
      /at most 1024 characters/,
    ],
    ['a list', '---\n- name: pdf\n---\n', /expected a line such as/],
    ['too much text', `---\nname: pdf\ndescription: x\n---\n${'x'.repeat(65_536)}`, /at most 65536 are read/],
  ])('refuses a skill with %s, by its path', (_what, text, message) => {
    write('skills/pdf/SKILL.md', text);
    expect(() => open()).toThrow(expect.objectContaining({ code: 'agent-invalid' }));
    expect(open).toThrow(message);
    expect(open).toThrow(join('pdf', 'SKILL.md'));
  });

  it('refuses a name that the form of skills does not have', () => {
    writeSkill('Pdf');
    expect(open).toThrow(/lower-case letters and digits/);
  });

  it('refuses a folder that is not there or has no skill, and more than 100 skills', () => {
    expect(open).toThrow(/cannot read the folder .*ENOENT/);
    write('skills/README.md', 'No skill.');
    expect(open).toThrow(/no folder in .* has a SKILL\.md/);
    for (let at = 0; at < 101; at += 1) writeSkill(`skill-${at}`);
    expect(open).toThrow(/has 101 skills; at most 100/);
  });

  it('refuses a skill that is a symbolic link, or whose instructions are', () => {
    writeSkill('pdf');
    write('elsewhere/doc/SKILL.md', '---\nname: doc\ndescription: x\n---\n');
    symlinkSync(join(root, 'elsewhere/doc'), join(root, 'skills/doc'));
    expect(open).toThrow(/doc" is a symbolic link/);
    rmSync(join(root, 'skills/doc'));
    mkdirSync(join(root, 'skills/doc'));
    symlinkSync(join(root, 'elsewhere/doc/SKILL.md'), join(root, 'skills/doc/SKILL.md'));
    expect(open).toThrow(/SKILL\.md" is a symbolic link/);
  });
});

describe('read_skill', () => {
  beforeEach(() => {
    writeSkill('pdf');
    writeSkill('csv');
    write('skills/pdf/references/forms.md', 'All forms.');
    write('skills/pdf/references/deep/er.md', 'Deep.');
    write('skills/pdf/scripts/fill.py', 'print(1)');
  });

  it('reads the instructions without their front matter, with the list of the other files', async () => {
    const text =
      'How to use pdf.\n\nFiles of this skill:\nreferences/deep/er.md\nreferences/forms.md\nscripts/fill.py';
    expect(await read('pdf')).toBe(text);
    expect(await read('pdf', 'SKILL.md')).toBe(text);
    expect(await read('csv')).toBe('How to use csv.');
  });

  it('reads a file, and lists a folder', async () => {
    expect(await read('pdf', 'references/forms.md')).toBe('All forms.');
    expect(await read('pdf', './scripts/fill.py')).toBe('print(1)');
    expect(await read('pdf', 'references/')).toBe(
      'Files of this folder:\nreferences/deep/er.md\nreferences/forms.md',
    );
  });

  it('says for an unknown skill or file what there is', async () => {
    expect(await refusal('doc', '')).toBe('Error: There is no skill "doc", but csv, pdf.');
    expect(await refusal('pdf', 'forms.md')).toMatch(
      /no file "forms\.md"\. Its files:\nSKILL\.md\nreferences\//,
    );
  });

  it.each([
    '../csv/SKILL.md',
    'references/../../csv/SKILL.md',
    'references/../scripts/fill.py',
    '/etc/passwd',
    'C:\\secret.txt',
    '..\\csv\\SKILL.md',
    'references\\forms.md',
    'references/forms.md\0.png',
    'references//forms.md',
    '%2e%2e/csv/SKILL.md',
    'constructor',
    '.env',
    '.git/config',
    'linked.txt',
    'linked/secret.txt',
    'references/loop/forms.md',
  ])('does not read %j', async path => {
    write('secret/secret.txt', 'secret');
    write('skills/pdf/.env', 'secret');
    write('skills/pdf/.git/config', 'secret');
    symlinkSync(join(root, 'secret/secret.txt'), join(root, 'skills/pdf/linked.txt'));
    symlinkSync(join(root, 'secret'), join(root, 'skills/pdf/linked'));
    symlinkSync(join(root, 'skills/pdf/references'), join(root, 'skills/pdf/references/loop'));
    const message = await refusal('pdf', path);
    expect(message).toMatch(/has no file/);
    expect(message).not.toMatch(/\nlinked|\n\.env|\nreferences\/loop/);
  });

  it('does not read instructions that became a link, or are gone', async () => {
    write('secret.txt', 'secret');
    const opened = open();
    const again = () => messageOf(runTool([opened], 'read_skill', { skill: 'pdf' }));
    rmSync(join(root, 'skills/pdf/SKILL.md'));
    expect(await again()).toMatch(/is gone/);
    symlinkSync(join(root, 'secret.txt'), join(root, 'skills/pdf/SKILL.md'));
    expect(await again()).toMatch(/behind a symbolic link/);
  });

  it('does not follow a folder of a skill that became a link', async () => {
    const opened = open();
    write('elsewhere/SKILL.md', 'secret');
    rmSync(join(root, 'skills/pdf'), { recursive: true });
    symlinkSync(join(root, 'elsewhere'), join(root, 'skills/pdf'));
    const message = await messageOf(runTool([opened], 'read_skill', { skill: 'pdf' }));
    expect(message).toMatch(/behind a symbolic link/);
  });

  it('refuses in words what is not text, and what is too large', async () => {
    write('skills/pdf/logo.png', new Uint8Array([137, 80, 78, 71, 0, 1]));
    write('skills/pdf/latin.txt', new Uint8Array([252, 98, 101, 114]));
    write('skills/pdf/edge.txt', 'x'.repeat(65_536));
    write('skills/pdf/long.txt', 'x'.repeat(65_537));
    expect(await refusal('pdf', 'logo.png')).toMatch(/"logo\.png" of the skill "pdf" is not text/);
    expect(await refusal('pdf', 'latin.txt')).toMatch(/is not text/);
    expect(await read('pdf', 'edge.txt')).toHaveLength(65_536);
    expect(await refusal('pdf', 'long.txt')).toMatch(/more than 65536 bytes/);
  });

  it('does not wait for a pipe', async () => {
    execFileSync('mkfifo', [join(root, 'skills/pdf/pipe')]);
    expect(await refusal('pdf', 'pipe')).toMatch(/has no file/);
  });

  it('names at most 100 files, and reads no skill with more than 1,000', async () => {
    for (let at = 0; at < 990; at += 1) write(`skills/csv/data/${at}.csv`, '');
    expect(String(await read('csv')).split('\n')).toHaveLength(2 + 1 + 100 + 1);
    expect(await read('csv')).toMatch(/and 890 more$/);
    for (let at = 0; at < 11; at += 1) write(`skills/csv/more/${at}.csv`, '');
    expect(await refusal('csv', 'data/1.csv')).toMatch(/more than 1000 files/);
  });

  it('is a read that rules know as untrusted, unless the skills are your own', async () => {
    expect(open()).toMatchObject({ sideEffect: 'none', tags: ['untrusted'] });
    expect(open({ trusted: true, name: 'own_skills' })).toMatchObject({ name: 'own_skills', tags: [] });
    const mail = tool({
      name: 'mail',
      description: 'Sends.',
      input: z.object({}),
      tags: ['leaves'],
      run: () => 1,
    });
    const play = async (options: SkillsOptions) => {
      const model = scripted([
        { toolCalls: [{ name: 'read_skill', arguments: { skill: 'csv' } }] },
        { toolCalls: [{ name: 'mail', arguments: {} }] },
        { text: 'Done.' },
      ]);
      const rules = [never('leaves').after('untrusted')];
      const agent = createAgent({ name: 'clerk', model, tools: [open(options), mail], rules });
      const settled = await agent.run('Go.');
      return settled.status === 'finished' ? settled.results.map(({ output }) => output) : settled;
    };
    expect(await play({ trusted: true })).toEqual(['How to use csv.', 1]);
    expect(await play({})).toEqual(['How to use csv.', expect.stringMatching(/untrusted/)]);
  });
});
