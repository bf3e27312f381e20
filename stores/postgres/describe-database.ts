import { makePool, runTransaction, translateError } from './database.ts';
import { findVersion, quoteSchema, schemaVersion } from './schema.ts';

/** The tables of a database, and the server's `synchronous_commit`. `version` is `null` if there are no tables. */
export type DescribedDatabase = { version: number | null; current: number; synchronousCommit: string };

/** Describes the tables at `url`. Changes nothing. Throws `store-unavailable` if the server cannot be used. */
export async function describeDatabase(url: string, schema = 'agentchart'): Promise<DescribedDatabase> {
  const pool = await makePool(url);
  pool.on('error', () => {});
  try {
    return await runTransaction(pool, async query => {
      const [setting] = await query('SHOW synchronous_commit');
      return {
        version: await findVersion(query, quoteSchema(schema)),
        current: schemaVersion(),
        synchronousCommit: String(setting?.synchronous_commit),
      };
    });
  } catch (error) {
    throw translateError(error);
  } finally {
    await pool.end();
  }
}
