// urql and Apollo Client as they come, but for the address and the key; says what each got, as JSON.
import { ApolloClient, HttpLink, InMemoryCache, gql } from "@apollo/client/core/index.js";
import { Client, cacheExchange, fetchExchange } from "@urql/core";

const [url, key] = process.argv.slice(2);
const headers = { authorization: `Bearer ${key}` };
const query = "{ domains(first: 1) { nodes { host } } }";
const create = "mutation($input: CreateDomainInput!) { createDomain(input: $input) { host } }";
const of = (host) => ({ input: { host } });

const apollo = new ApolloClient({ cache: new InMemoryCache(), link: new HttpLink({ uri: url, headers }) });
const urql = (more) => new Client({ url, exchanges: [cacheExchange, fetchExchange], fetchOptions: { headers }, ...more });
const said = ({ data, error }) => data?.domains ?? data?.createDomain ?? error?.message ?? error;
const mutate = (host) => apollo.mutate({ mutation: gql(create), variables: of(host) }).catch((error) => ({ error }));

console.log(
  JSON.stringify({
    apollo: [
      said(await apollo.query({ query: gql(query) })),
      said(await mutate("apollo.example")),
      (await mutate("no host")).error.errors[0].extensions.code,
    ],
    urql: [
      said(await urql().query(query, {})),
      said(await urql({ preferGetMethod: false }).query(query, {})),
      said(await urql().mutation(create, of("urql.example"))),
      (await urql().mutation(create, of("no host"))).error.graphQLErrors[0].extensions.code,
    ],
  }),
);
