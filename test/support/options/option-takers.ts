import { readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { isClassDeclaration, isInterfaceDeclaration } from 'typescript/unstable/ast';
import {
  API,
  type Project,
  SignatureKind,
  SymbolFlags,
  type Type,
  TypeFlags,
} from 'typescript/unstable/sync';
import * as z from 'zod';

const ROOT = fileURLToPath(new URL('../../..', import.meta.url));

/** The parameters of the package's functions and methods that take an object of names, as `FUNCTION PARAMETER`. */
export function findOptionTakers(): ReadonlySet<string> {
  const { exports } = z
    .object({ exports: z.record(z.string(), z.string()) })
    .parse(JSON.parse(readFileSync(`${ROOT}package.json`, 'utf8')));
  const files = Object.values(exports).filter(file => file.endsWith('.js'));
  const api = new API({ cwd: ROOT });
  try {
    const config = `${ROOT}tsconfig.build.json`;
    const project = api.updateSnapshot({ openProject: config }).getProject(config);
    if (project === undefined) throw new Error(`TypeScript cannot read ${config}.`);
    const takers = new Set<string>();
    for (const file of files) addTakers(project, `${ROOT}${file.slice('./dist/'.length, -3)}.ts`, takers);
    return takers;
  } finally {
    api.close();
  }
}

function addTakers(project: Project, file: string, takers: Set<string>): void {
  const { checker, program } = project;
  const source = program.getSourceFile(file);
  const module = source && checker.getSymbolAtLocation(source);
  if (module === undefined) throw new Error(`${file} has no exports.`);
  const addCalls = (name: string, type: Type | undefined, kind: SignatureKind) => {
    for (const signature of type === undefined ? [] : checker.getSignaturesOfType(type, kind))
      for (const parameter of signature.getParameters()) {
        const given = checker.getTypeOfSymbol(parameter);
        if (given !== undefined && hasNames(project, given))
          takers.add(`${name} ${parameter.name.startsWith('__') ? 'options' : parameter.name}`);
      }
  };
  for (const exported of checker.getExportsOfModule(module)) {
    const isAlias = (exported.flags & SymbolFlags.Alias) !== 0;
    const symbol = isAlias ? checker.getAliasedSymbol(exported) : exported;
    if ((symbol.flags & SymbolFlags.Value) === 0) continue;
    const type = checker.getTypeOfSymbol(symbol);
    addCalls(exported.name, type, SignatureKind.Call);
    if ((symbol.flags & SymbolFlags.Class) === 0) continue;
    addCalls(exported.name, type, SignatureKind.Construct);
    for (const member of checker.getPropertiesOfType(checker.getDeclaredTypeOfSymbol(symbol)))
      if (!/^(?:#|__)/.test(member.name))
        addCalls(`${exported.name}.${member.name}`, checker.getTypeOfSymbol(member), SignatureKind.Call);
  }
}

/** Whether a value of the type is an object of names: no list, function, class or interface. */
function hasNames(project: Project, type: Type): boolean {
  const { checker } = project;
  if (type.isUnionType()) return type.getTypes().some(part => hasNames(project, part));
  if ((type.flags & TypeFlags.Conditional) !== 0) return true;
  if ((type.flags & (TypeFlags.Object | TypeFlags.Intersection)) === 0) return false;
  if (checker.isArrayLikeType(type)) return false;
  if (checker.getSignaturesOfType(type, SignatureKind.Call).length > 0) return false;
  const declaration = type.getSymbol()?.declarations[0]?.resolve(project);
  if (declaration !== undefined && (isClassDeclaration(declaration) || isInterfaceDeclaration(declaration)))
    return false;
  return checker.getPropertiesOfType(type).length > 0;
}
