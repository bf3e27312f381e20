import { readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import {
  type ClassDeclaration,
  type ClassElement,
  isClassDeclaration,
  isFunctionDeclaration,
  isTypeAliasDeclaration,
  isVariableDeclaration,
  type Node,
} from 'typescript/unstable/ast';
import { API, NodeBuilderFlags, type Project, SymbolFlags } from 'typescript/unstable/sync';
import * as z from 'zod';

const ROOT = fileURLToPath(new URL('../../..', import.meta.url));
const GENERATED = '<!-- Generated from the types by `npm run docs:api`. -->';

/** The pages of docs/api, and the entries of the package that each describes. */
const PAGES: Readonly<Record<string, (entry: string) => boolean>> = {
  agentchart: entry => entry === '.',
  machine: entry => entry === './machine',
  server: entry => entry === './server',
  otel: entry => entry === './otel',
  hosts: entry => entry.startsWith('./hosts/'),
  fronts: entry => ['./a2a', './ai-sdk-ui', './ag-ui', './mcp', './react', './remote-run'].includes(entry),
  runner: entry => entry === './runner',
  testing: entry => entry === './testing',
  adapters: entry => entry.startsWith('./adapters/'),
  stores: entry => entry.startsWith('./stores/'),
  tools: entry => entry.startsWith('./tools/'),
};

/** A page of more entries names their folder. */
const MOST_NAMED = 6;

/** The pages of docs/api by file name, as Markdown: every export of the package, from the types and their comments. */
export function apiReference(): ReadonlyMap<string, string> {
  const { exports } = z
    .object({ exports: z.record(z.string(), z.string()) })
    .parse(JSON.parse(readFileSync(`${ROOT}package.json`, 'utf8')));
  const entries = Object.entries(exports).filter(([, file]) => file.endsWith('.js'));
  const api = new API({ cwd: ROOT });
  try {
    const config = `${ROOT}tsconfig.build.json`;
    const project = api.updateSnapshot({ openProject: config }).getProject(config);
    if (project === undefined) throw new Error(`TypeScript cannot read ${config}.`);
    const missed = entries.find(([entry]) => !Object.values(PAGES).some(covers => covers(entry)));
    if (missed !== undefined) throw new Error(`No page of docs/api covers the entry ${missed[0]}.`);
    const pages = Object.entries(PAGES).map(([name, covers]) => {
      const covered = entries.filter(([entry]) => covers(entry));
      const parts = covered.map(([entry, file]) => describeEntry(project, entry, file));
      const named = covered.map(([entry]) => `\`agentchart${entry.slice(1)}\``);
      const from = named.length > MOST_NAMED ? `\`agentchart/${name}/…\`` : named.join(', ');
      const intro = `Every export of ${from}, with its types and what it promises.`;
      return [`api/${name}.md`, `${[`# API: ${name}`, GENERATED, intro, ...parts].join('\n\n')}\n`] as const;
    });
    return new Map(pages);
  } finally {
    api.close();
  }
}

function describeEntry(project: Project, entry: string, built: string): string {
  const { checker, program } = project;
  const file = built.replace('./dist/', ROOT).replace(/\.js$/, '.ts');
  const source = program.getSourceFile(file);
  const module = source && checker.getSymbolAtLocation(source);
  if (module === undefined) throw new Error(`${file} has no exports.`);
  const names = checker.getExportsOfModule(module).toSorted((a, b) => compareNames(a.name, b.name));
  const described = names.map(symbol => {
    const { name, flags } = symbol;
    const target = (flags & SymbolFlags.Alias) === 0 ? symbol : checker.getAliasedSymbol(symbol);
    const declaration = target.declarations[0]?.resolve(project);
    if (declaration === undefined) throw new Error(`${file} exports ${name}, which is not declared.`);
    return [`### ${name}`, ...describeComment(target, project), declare(declaration, target, project)].join(
      '\n\n',
    );
  });
  return [`## \`agentchart${entry.slice(1)}\``, ...described].join('\n\n');
}

type Symbol = ReturnType<Project['checker']['getAliasedSymbol']>;

function compareNames(a: string, b: string): number {
  return a.toLowerCase() < b.toLowerCase() ? -1 : 1;
}

/** The text of a doc comment and its examples, as paragraphs. */
function describeComment(symbol: Symbol, { checker }: Project): string[] {
  const text = checker.getDocumentationCommentOfSymbol(symbol).trim();
  const examples = checker
    .getJsDocTagsOfSymbol(symbol)
    .filter(tag => tag.name === 'example')
    .map(tag => fence(String(tag.text ?? '').trim()));
  return [...(text === '' ? [] : [text]), ...examples];
}

/** The declaration as a code block, without what callers do not see. */
function declare(node: Node, symbol: Symbol, { checker }: Project): string {
  if (isFunctionDeclaration(node)) return fence(withoutBody(node));
  if (isClassDeclaration(node)) return fence(declareClass(node));
  if (isVariableDeclaration(node)) {
    const type = checker.getTypeOfSymbol(symbol);
    return fence(`const ${symbol.name}: ${type && checker.typeToString(type, node, FLAGS)}`);
  }
  const text = node.getText();
  if (!isTypeAliasDeclaration(node) || !text.includes('z.infer')) return fence(clean(text));
  return fence(
    `type ${symbol.name} = ${checker.typeToString(checker.getDeclaredTypeOfSymbol(symbol), node, EXPANDED)}`,
  );
}

const FLAGS = NodeBuilderFlags.NoTruncation | NodeBuilderFlags.MultilineObjectLiterals;
const EXPANDED = FLAGS | NodeBuilderFlags.InTypeAlias;

function declareClass(node: ClassDeclaration): string {
  const text = node.getText();
  const head = text.slice(0, text.indexOf('{') + 1);
  const members = node.members.filter(isPublic).map(member => {
    const comment = member.jsDoc?.at(-1)?.getText();
    return [...(comment === undefined ? [] : [comment]), withoutBody(member)].join('\n  ');
  });
  return [clean(head), ...members.map(member => `  ${member}`), '}'].join('\n');
}

/** Whether callers see it: declarations lack what is `@internal`, in the package too. */
function isPublic(member: ClassElement): boolean {
  if (member.jsDoc?.at(-1)?.getText().includes('@internal') === true) return false;
  const text = member.getText();
  return !/^(?:readonly |static |get |set |async |\*)*[#[]/.test(text) && !/^private\b/.test(text);
}

/** The text of a function, method or property up to its body or value. */
function withoutBody(node: Node & { body?: Node | undefined; initializer?: Node | undefined }): string {
  const text = node.getText();
  const cut = node.body ?? node.initializer;
  if (cut === undefined) return clean(text);
  return clean(text.slice(0, cut.getStart() - node.getStart()).replace(/\s*=?\s*$/, ''));
}

const INTERNAL_MEMBER = /\n *\/\*\*(?:(?!\*\/)[\s\S])*@internal\s*\*\/[^;]*;/g;

function clean(text: string): string {
  return text
    .replace(INTERNAL_MEMBER, '')
    .replace(/^export /, '')
    .replace(/\basync /, '');
}

function fence(code: string): string {
  return `\`\`\`ts\n${code}\n\`\`\``;
}
